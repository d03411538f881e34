//! The step of a partition processor in native code (docs/kernel.md). It takes plain records of the log, and committed
//! versions, to records of rows. Python's step is the reference: a module here names the Python module that it equals,
//! and refuses (`None`) whatever it is not sure of.
//!
//! The host writes a message into `input`, calls `plan`, `rows`, `read`, `follow` or `versions`, and reads what these point at.
//! Numbers are little endian. There is one instance for each log partition. After a trap the host asks whether the memory
//! `ran_out`.

mod arrays;
mod avro;
mod command;
mod connect;
mod crc32;
mod cursor;
mod datum;
mod datum_text;
mod decimals;
mod entry;
mod integers;
mod intents;
mod json_text;
mod json_value;
mod key_datum;
mod kind;
mod log_batch;
mod log_clock;
mod memory;
mod message;
mod number_text;
mod op_log;
mod partition;
mod plan;
mod range;
mod row;
mod table_codec;
mod table_key;
mod template;
mod value_frame;
mod varints;
mod wire;

use std::cell::RefCell;

use log_batch::{Followed, Found, LogBatch};
use plan::Plan;
use row::Output;

/// The version of this interface; `tidegate/kernel/instance.py` refuses another one.
const INTERFACE: u32 = 7;
/// Where no summary can be. `rows` and `follow` return it where the rows are more than an output may have.
const TOO_LARGE: usize = 1;

#[derive(Default)]
struct Kernel {
    input: Vec<u8>,
    plan: Plan,
    output: Output,
    summary: message::Summary,
    batch: LogBatch,
    named: Named,
    followed: Followed,
    found: Vec<Found>,
    follow_summary: FollowSummary,
}

/// How many records of a batch can be read, and where the ids are of the ranges and transactions that they name.
#[derive(Default)]
#[repr(C)]
pub struct Named {
    records: u32,
    ranges: u32,
    range_count: u32,
    txns: u32,
    txn_count: u32,
}

/// How many records were followed, and where the parts of that are.
#[derive(Default)]
#[repr(C)]
pub struct FollowSummary {
    taken: u32,
    state: u32,
    state_count: u32,
    walls: u32,
    places: u32,
    version_count: u32,
    rows: message::Summary,
}

thread_local! {
    static KERNEL: RefCell<Kernel> = RefCell::default();
}

#[no_mangle]
pub extern "C" fn interface() -> u32 {
    INTERFACE
}

/// Whether a trap may come from a lack of memory: 1, or 0 where there was always enough.
#[no_mangle]
pub extern "C" fn ran_out() -> u32 {
    u32::from(memory::ran_out())
}

/// Makes room for so many bytes of input; returns where it is.
#[no_mangle]
pub extern "C" fn input(size: u32) -> *mut u8 {
    KERNEL.with_borrow_mut(|kernel| {
        kernel.input.clear();
        kernel.input.resize(size as usize, 0);
        kernel.input.as_mut_ptr()
    })
}

/// Takes the input as the plan from here on; returns 1, or 0 where it is none.
#[no_mangle]
pub extern "C" fn plan() -> u32 {
    KERNEL.with_borrow_mut(|kernel| match plan::read(&kernel.input) {
        Some(plan) => {
            kernel.plan = plan;
            1
        }
        None => 0,
    })
}

/// Takes the input as `count` versions; returns where the summary of the output is, `TOO_LARGE`, or null where it is no
/// such input.
#[no_mangle]
pub extern "C" fn rows(count: u32) -> *const message::Summary {
    KERNEL.with_borrow_mut(|kernel| {
        let Kernel { input, plan, output, summary, .. } = kernel;
        if message::take_versions(input, count as usize, plan, output).is_none() {
            return std::ptr::null();
        }
        if output.is_full {
            return std::ptr::without_provenance(TOO_LARGE);
        }
        *summary = message::Summary::of(output);
        &raw const *summary
    })
}

/// Takes the input as `count` records of the log; returns what its readable prefix names, or null where it is no such
/// input.
#[no_mangle]
pub extern "C" fn read(count: u32) -> *const Named {
    KERNEL.with_borrow_mut(|kernel| {
        let Some(batch) = LogBatch::read(std::mem::take(&mut kernel.input), count as usize) else {
            return std::ptr::null();
        };
        kernel.named = Named {
            records: batch.len() as u32,
            ranges: batch.range_ids.as_ptr() as usize as u32,
            range_count: batch.range_ids.len() as u32,
            txns: batch.txns.as_ptr() as usize as u32,
            txn_count: batch.txns.len() as u32,
        };
        kernel.batch = batch;
        &raw const kernel.named
    })
}

/// Takes the input as the state with which the records of the last `read` are followed; returns where the summary is of
/// what that gives, `TOO_LARGE`, or null where it is no such input.
#[no_mangle]
pub extern "C" fn follow() -> *const FollowSummary {
    KERNEL.with_borrow_mut(|kernel| {
        let Kernel { input, plan, output, batch, followed, .. } = kernel;
        if log_batch::follow(batch, input, plan, output, followed).is_none() {
            return std::ptr::null();
        }
        if output.is_full {
            return std::ptr::without_provenance(TOO_LARGE);
        }
        kernel.follow_summary = FollowSummary {
            taken: followed.taken as u32,
            state: followed.state.as_ptr() as usize as u32,
            state_count: followed.state.len() as u32,
            walls: followed.walls.as_ptr() as usize as u32,
            places: followed.places.as_ptr() as usize as u32,
            version_count: followed.walls.len() as u32,
            rows: message::Summary::of(output),
        };
        &raw const kernel.follow_summary
    })
}

/// Returns where the versions are that were followed last, as many as the summary of `follow` says.
#[no_mangle]
pub extern "C" fn versions() -> *const Found {
    KERNEL.with_borrow_mut(|kernel| {
        kernel.found = log_batch::found(&kernel.batch, &kernel.followed);
        kernel.found.as_ptr()
    })
}

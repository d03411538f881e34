//! The step of a partition processor in native code (docs/kernel.md). So far it takes the stage from committed
//! versions to records. Python's step is the reference: a module here names the Python module that it equals, and
//! refuses (`None`) whatever it is not sure of.
//!
//! The host writes a message into `input`, calls `plan` or `rows`, and reads what `rows` points at. Numbers are
//! little endian. There is one instance for each log partition.

mod arrays;
mod crc32;
mod cursor;
mod datum;
mod datum_text;
mod decimals;
mod integers;
mod json_text;
mod json_value;
mod key_datum;
mod kind;
mod message;
mod number_text;
mod partition;
mod plan;
mod row;
mod table_codec;
mod table_key;
mod template;
mod value_frame;
mod varints;

use std::cell::RefCell;

use plan::Plan;
use row::Output;

/// The version of this interface; `tidegate/kernel/instance.py` refuses another one.
const INTERFACE: u32 = 2;

#[derive(Default)]
struct Kernel {
    input: Vec<u8>,
    plan: Plan,
    output: Output,
    summary: message::Summary,
}

thread_local! {
    static KERNEL: RefCell<Kernel> = RefCell::default();
}

#[no_mangle]
pub extern "C" fn interface() -> u32 {
    INTERFACE
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

/// Takes the input as `count` versions; returns where the summary of the output is, or null where it is no such input.
#[no_mangle]
pub extern "C" fn rows(count: u32) -> *const message::Summary {
    KERNEL.with_borrow_mut(|kernel| {
        let Kernel { input, plan, output, summary } = kernel;
        if message::take_versions(input, count as usize, plan, output).is_none() {
            return std::ptr::null();
        }
        *summary = message::Summary::of(output);
        &raw const *summary
    })
}

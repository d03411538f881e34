// Subscriptions of `tidegate serve` in a page: connects, resumes, and keeps a table that is always of one time.
// A module without a build step: import { subscribe } from "http://127.0.0.1:6880/tidegate.js"

const FIRST_WAIT_MS = 250;
const LONGEST_WAIT_MS = 15000;
// Answers that come again at every attempt. After the first two a new snapshot helps.
const BEGIN_AGAIN = new Set(["history_lost", "token_refused"]);
const RETRY_STATUSES = new Set([408, 429, 500, 502, 503, 504]);

/**
 * Subscribe, until `close()`.
 *
 * options:
 *   url        the server; by default that of the page
 *   bearer     the server's token, if it wants one
 *   token      a resume token of an earlier run; the table then begins empty
 *   onChange   called after each batch with the table: { rows, frontier, changed, columns, token }
 *   onState    called with "live", "waiting" or "ended"
 *   onError    called with each error: { code, message, ... }
 *
 * `rows` is a Map. Its keys are JSON of the KEY columns, or of the whole row where there is no KEY; its values
 * are objects by column; of two columns of one name the last is shown. Timestamps, decimals and integers beyond 2^53 are strings, so that nothing is lost.
 */
export function subscribe(statement, options = {}) {
  const table = { rows: new Map(), counts: new Map(), columns: [], key: [], places: null, frontier: null, token: options.token || "", changed: [] };
  const abort = new AbortController();
  const done = run(statement, options, table, abort.signal);
  return {
    table,
    done,
    close() {
      abort.abort();
    },
  };
}

/** A React hook, for any React: `const useSubscription = subscriptionHook(React)`. */
export function subscriptionHook(React) {
  return function useSubscription(statement, options = {}) {
    const [shown, setShown] = React.useState({ rows: [], frontier: null, state: "waiting", error: null });
    const { url, bearer } = options;
    React.useEffect(() => {
      const open = subscribe(statement, {
        url,
        bearer,
        onChange: (table) => setShown((before) => ({ ...before, rows: [...table.rows.values()], frontier: table.frontier, error: null })),
        onState: (state) => setShown((before) => ({ ...before, state })),
        onError: (error) => setShown((before) => ({ ...before, error })),
      });
      return () => open.close();
    }, [statement, url, bearer]);
    return shown;
  };
}

async function run(statement, options, table, signal) {
  const tell = (name, value) => options[name] && options[name](value);
  let wait = FIRST_WAIT_MS;
  while (!signal.aborted) {
    let ending = null;
    try {
      ending = await readOnce(statement, options, table, signal, () => {
        wait = FIRST_WAIT_MS;
        tell("onState", "live");
      });
    } catch (error) {
      if (signal.aborted) break;
      ending = { error: { code: "interrupted", message: String(error) }, retry: true };
    }
    if (signal.aborted) break;
    if (ending.end) {
      tell("onState", "ended");
      return;
    }
    if (ending.error) tell("onError", ending.error);
    const begins = ending.error && BEGIN_AGAIN.has(ending.error.code) && table.token;
    if (begins) table.token = "";
    else if (ending.error && !ending.retry) {
      tell("onState", "ended");
      return;
    }
    tell("onState", "waiting");
    await pause(wait, signal);
    wait = Math.min(wait * 2, LONGEST_WAIT_MS);
  }
  tell("onState", "ended");
}

async function readOnce(statement, options, table, signal, live) {
  const headers = { Accept: "application/x-ndjson" };
  if (options.bearer) headers.Authorization = `Bearer ${options.bearer}`;
  if (table.token) headers["Last-Event-ID"] = table.token;
  const address = `${options.url || ""}/subscribe?statement=${encodeURIComponent(statement)}`;
  const answer = await fetch(address, { headers, signal, cache: "no-store" });
  if (!answer.ok) {
    const told = await answer.json().catch(() => ({}));
    const error = told.error || { code: "http_error", message: `HTTP ${answer.status}` };
    return { error, retry: RETRY_STATUSES.has(answer.status) };
  }
  let held = [];
  let opened = false;
  for await (const message of lines(answer.body)) {
    if (message.end) return { end: true };
    // A client that was too slow goes on after the last batch, if it can.
    if (message.error) return { error: message.error, retry: Boolean(message.error.token && table.token) };
    if (message.columns) {
      begin(table, message);
      live();
      continue;
    }
    held.push(...message.rows);
    if (message.frontier === undefined) continue; // the batch goes on: nothing of it is shown yet
    const rows = held;
    held = [];
    const opens = !opened && !message.snapshot && rows.length > 0 && rows.every((row) => isProgress(table, row));
    opened = true;
    if (opens) continue; // with PROGRESS a row at AS OF comes before the snapshot: there is no table yet
    apply(table, rows, message);
    if (options.onChange) options.onChange(table);
  }
  return { retry: true };
}

async function* lines(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n");
    rest = parts.pop();
    for (const part of parts) if (part) yield JSON.parse(part);
  }
}

function begin(table, header) {
  table.columns = header.columns;
  table.key = header.key;
  table.places = placesOf(header);
  if (!header.resumed) {
    table.rows.clear();
    table.counts.clear();
  }
}

// Where in a row stand its marks, its key, and its values with their names. Names of columns tell none of that:
// a table may have a column `before_tax` or `mz_state`, and a query two columns of one name.
function placesOf({ columns, mode, key }) {
  const progressed = columns[1] === "mz_progressed" ? 1 : -1; // there stands mz_diff or mz_state otherwise
  const mark = progressed > 0 ? 2 : 1;
  const first = mark + 1;
  const rest = first + key.length;
  const others = mode === "debezium" ? (columns.length - rest) / 2 : 0;
  const values = columns.map((name, at) => ({ name, at })).slice(first);
  for (const value of values) if (mode === "debezium" && value.at >= rest) value.name = value.name.replace(/^after_/, "");
  return {
    progressed,
    mark,
    keyed: mode === "upsert" || mode === "debezium",
    key: columns.map((_, at) => at).slice(first, rest),
    values: values.filter(({ at }) => at < rest || at >= rest + others), // those before the change are left out
  };
}

function apply(table, rows, batch) {
  const changed = new Set();
  for (const row of rows) {
    if (isProgress(table, row)) continue;
    changed.add(table.places.keyed ? applyState(table, row) : applyDiff(table, row));
  }
  table.changed = [...changed];
  table.frontier = batch.frontier;
  table.token = batch.token || "";
}

function isProgress(table, row) {
  return row[table.places.progressed] === true;
}

function applyState(table, row) {
  const key = JSON.stringify(table.places.key.map((at) => row[at]));
  const state = row[table.places.mark];
  if (state === "delete" || state === "key_violation") table.rows.delete(key);
  else table.rows.set(key, named(table, row));
  return key;
}

function applyDiff(table, row) {
  const key = JSON.stringify(table.places.values.map(({ at }) => row[at]));
  const count = (table.counts.get(key) || 0) + Number(row[table.places.mark]);
  if (count === 0) table.counts.delete(key);
  else table.counts.set(key, count);
  // Below zero it was there before the first row that came: without a snapshot, and behind a token of an earlier run.
  if (count > 0) table.rows.set(key, named(table, row));
  else table.rows.delete(key);
  return key;
}

function named(table, row) {
  return Object.fromEntries(table.places.values.map(({ name, at }) => [name, row[at]]));
}

function pause(ms, signal) {
  return new Promise((resume) => {
    const timer = setTimeout(resume, ms);
    signal.addEventListener("abort", () => { clearTimeout(timer); resume(); }, { once: true });
  });
}

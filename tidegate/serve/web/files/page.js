import { subscribe } from "/tidegate.js";

const MOST_SHOWN = 1000; // rows; a browser draws no more of them in time
const at = (id) => document.getElementById(id);
let open = null;
let batches = 0;

function cell(kind, value) {
  const made = document.createElement(kind);
  if (value === null || value === undefined) {
    made.textContent = "NULL";
    made.className = "null";
  } else made.textContent = typeof value === "object" ? JSON.stringify(value) : String(value);
  return made;
}

function line(kind, values) {
  const row = document.createElement("tr");
  row.replaceChildren(...values.map((value) => cell(kind, value)));
  return row;
}

function draw(table) {
  batches += 1;
  const hot = new Set(batches > 1 ? table.changed : []);
  const shown = [...table.rows].slice(0, MOST_SHOWN);
  const names = shown.length ? Object.keys(shown[0][1]) : [];
  at("head").replaceChildren(line("th", names));
  at("body").replaceChildren(
    ...shown.map(([key, row]) => {
      const made = line("td", Object.values(row));
      if (hot.has(key)) made.className = "changed";
      return made;
    }),
  );
  at("frontier").textContent = table.frontier;
  const ms = Number(table.frontier.split(".")[0].slice(0, -6));
  at("time").textContent = ms > 0 ? new Date(ms).toISOString() : "-";
  at("count").textContent = table.rows.size;
  at("batches").textContent = batches;
  at("error").hidden = true;
}

function fail(error) {
  at("error").textContent = `${error.code}: ${error.message}`;
  at("error").hidden = false;
}

function show() {
  if (open) open.close();
  batches = 0;
  at("head").replaceChildren();
  at("body").replaceChildren();
  open = subscribe(at("statement").value, {
    bearer: at("bearer").value,
    onChange: draw,
    onState: (state) => { at("state").textContent = state; },
    onError: fail,
  });
}

async function tables() {
  const bearer = at("bearer").value;
  const answer = await fetch("/tables", { headers: bearer ? { Authorization: `Bearer ${bearer}` } : {} });
  if (answer.status === 401) {
    at("secret").hidden = false;
    return;
  }
  const { tables: found, error } = await answer.json();
  if (error) {
    fail(error);
    return;
  }
  at("tables").replaceChildren(...found.map((table) => new Option(table.name, table.statement)));
  if (!found.length) return;
  at("statement").value ||= at("tables").value;
  show();
}

at("tables").addEventListener("change", () => { at("statement").value = at("tables").value; show(); });
at("ask").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  if (at("tables").options.length) show();
  else tables().catch((error) => fail({ code: "page", message: String(error) }));
});
tables().catch((error) => fail({ code: "page", message: String(error) }));

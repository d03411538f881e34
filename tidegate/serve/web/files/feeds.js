const at = (id) => document.getElementById(id);
const WIDTH = 600; // of the plot's view box
const HEIGHT = 80;
let interval = 2;

function made(kind, text, name) {
  const found = document.createElement(kind);
  if (text !== undefined) found.textContent = text;
  if (name) found.className = name;
  return found;
}

function duration(ms) {
  if (ms === null || ms === undefined) return "-";
  const size = Math.abs(ms);
  if (size < 1000) return `${ms} ms`;
  if (size < 120000) return `${(ms / 1000).toFixed(1)} s`;
  return size < 7200000 ? `${(ms / 60000).toFixed(0)} min` : `${(ms / 3600000).toFixed(1)} h`;
}

// The lag of the last looks: time to the right, lag upwards. Where it is not known the line has a gap.
function plot(points) {
  const known = points.filter((point) => point[1] !== null);
  const most = Math.max(1, ...known.map((point) => point[1]));
  const first = points[0][0];
  const span = Math.max(1, points[points.length - 1][0] - first);
  let path = "";
  let isGap = true;
  for (const [ms, lag] of points) {
    if (lag !== null) {
      const x = (WIDTH * (ms - first)) / span;
      const y = HEIGHT - 1 - (HEIGHT - 2) * Math.max(0, lag / most);
      path += `${isGap ? "M" : "L"}${x.toFixed(1)},${y.toFixed(1)}`;
    }
    isGap = lag === null;
  }
  const svg = at("plot").content.firstElementChild.cloneNode(true);
  svg.setAttribute("aria-label", `lag, at most ${duration(most)}`);
  svg.firstElementChild.setAttribute("d", path);
  const figure = made("figure");
  figure.append(svg, made("figcaption", `lag of the last ${duration(span)}: at most ${duration(most)}`, "small"));
  return figure;
}

function line(kind, values) {
  const row = made("tr");
  row.append(...values.map((value) => made(kind, String(value))));
  return row;
}

function ranges(slowest) {
  const table = made("table", undefined, "ranges");
  const titles = ["range", "partition", "state", "behind", "source behind", "transactions", "keys"];
  table.append(line("th", titles));
  for (const each of slowest) {
    table.append(line("td", [
      each.range_id, each.partition, each.state, duration(each.resolved_lag_ms), duration(each.closed_lag_ms),
      each.open_transactions, each.span,
    ]));
  }
  const scroll = made("div", undefined, "scroll");
  scroll.append(table);
  return scroll;
}

function section(feed) {
  const found = made("section", undefined, "feed");
  found.dataset.feed = feed.feed;
  const title = made("h2", `${feed.feed} `);
  title.append(made("span", feed.status, `status ${feed.status}`));
  const rate = feed.records_per_s === null ? "-" : feed.records_per_s.toLocaleString("en");
  const facts = [`lag ${duration(feed.lag_ms)}`, `${rate} records/s`, feed.engine, feed.tables.join(", ")];
  found.append(title, made("p", facts.filter(Boolean).join(" · "), "facts"));
  if (feed.points.length > 1) found.append(plot(feed.points));
  if (feed.why) found.append(made("p", feed.why.sentence, "why"));
  for (const each of feed.also) found.append(made("p", `Also: ${each.sentence}`, "small"));
  if (feed.error) found.append(made("p", feed.error, "wrong"));
  if (feed.slowest_ranges.length) found.append(ranges(feed.slowest_ranges));
  return found;
}

function show(found) {
  interval = found.interval_s || interval;
  const wrong = found.error;
  at("error").hidden = !wrong;
  if (wrong) at("error").textContent = `${wrong.code}: ${wrong.message}`;
  if (!found.feeds) return;
  at("time").textContent = found.at_ms === null ? "-" : new Date(found.at_ms).toISOString();
  at("count").textContent = found.feeds.length;
  at("feeds").replaceChildren(...found.feeds.map(section));
}

async function look() {
  const bearer = at("bearer").value;
  const answer = await fetch("/feeds", { headers: bearer ? { Authorization: `Bearer ${bearer}` } : {} });
  at("ask").hidden = answer.status !== 401;
  if (answer.status === 401) return false;
  show(await answer.json());
  return answer.status !== 404;
}

let round = 0;

// A page that nobody sees asks nothing.
async function watch() {
  const mine = ++round;
  let goes = true;
  while (goes && mine === round) {
    if (!document.hidden) {
      try {
        goes = await look();
      } catch (error) {
        show({ error: { code: "page", message: String(error) } });
      }
    }
    await new Promise((done) => setTimeout(done, interval * 1000));
  }
}

at("ask").addEventListener("submit", (submitted) => {
  submitted.preventDefault();
  watch();
});
watch();

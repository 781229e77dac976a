// The list of rollouts, its filters, and the address that says what is shown.
const PAGE = 100;
const FIRST_FILTERS = ["outcome", "domain", "strategy", "difficulty"];
const MORE_FILTERS = ["category", "verification", "vector"];
const COLUMN = { outcome: "status" };

const state = { filters: {}, q: "", rows: [], page: 0, current: null, call: null };
const haystacks = [];

function haystack(row) {
  haystacks[row] ??= [
    column("task", row), column("id", row), index.runs[column("run", row)], lineOf(row),
    ...["title", "goal", "target", "status", ...FIRST_FILTERS.slice(1), ...MORE_FILTERS].map((name) => word(name, row)),
    index.statuses[word("status", row)],
  ].join("\n").toLowerCase();
  return haystacks[row];
}

function addressOf(row) {
  return `${column("run", row) + 1}.${column("failed", row) ? "f" : ""}${column("line", row)}`;
}

function rowAt(address) {
  const { length } = index.columns.run;
  for (let row = 0; row < length; row += 1) if (addressOf(row) === address) return row;
  return null;
}

function hashOf(row = state.current) {
  const parts = new URLSearchParams(state.filters);
  if (state.q) parts.set("q", state.q);
  if (row !== null) parts.set("r", addressOf(row));
  if (row !== null && row === state.current && state.call !== null) parts.set("call", state.call);
  return `#${parts}`;
}

function readHash() {
  const parts = new URLSearchParams(location.hash.slice(1));
  const known = [...FIRST_FILTERS, ...MORE_FILTERS, "run", "read", "task"];
  state.filters = Object.fromEntries(known.filter((name) => parts.get(name)).map((name) => [name, parts.get(name)]));
  state.q = parts.get("q") ?? "";
  state.call = parts.has("call") ? Number(parts.get("call")) : null;
  return parts.get("r");
}

// The filters leave a row.
function passes(row) {
  for (const [name, wanted] of Object.entries(state.filters)) {
    if (name === "run" ? column("run", row) + 1 !== Number(wanted)
      : name === "task" ? column("same", row) !== Number(wanted)
      : name === "read" ? String(column("read", row)) !== wanted
        : word(COLUMN[name] ?? name, row) !== wanted) return false;
  }
  return true;
}

// All words of the search occur in what names a row.
function names(row) {
  return wordsOf(state.q).every((part) => haystack(row).includes(part));
}

function chooseRows() {
  const all = index.columns.run?.length ?? 0;
  state.rows = [];
  for (let row = 0; row < all; row += 1) {
    if (passes(row) && (names(row) || said.rows.has(row))) state.rows.push(row);
  }
}

function applyFilters() {
  searchSaid();
  chooseRows();
  const at = state.rows.indexOf(state.current);
  state.page = at < 0 ? 0 : Math.floor(at / PAGE);
  drawFilters();
  drawList();
}

function drawFilters() {
  for (const field of byId("filters").elements) {
    if (!field.name) continue;
    field.value = field.name === "q" ? state.q : state.filters[field.name] ?? "";
    field.classList.toggle("active", field.value !== "");
  }
  const hidden = MORE_FILTERS.some((name) => state.filters[name]);
  if (hidden) byId("filters").querySelector("details").open = true;
  const task = index.columns.same?.indexOf(Number(state.filters.task)) ?? -1;
  byId("only").hidden = !state.filters.task;
  if (state.filters.task) byId("only").replaceChildren("Only ", ...(task < 0 ? ["an unknown task"] : [named(task, "span", "", true)]), " ✕");
  byId("clear").disabled = !state.q && !Object.keys(state.filters).length;
}

function drawList() {
  const pages = Math.max(1, Math.ceil(state.rows.length / PAGE));
  const from = state.page * PAGE;
  const shown = state.rows.slice(from, from + PAGE);
  byId("list").replaceChildren(...shown.map(item));
  const all = index.columns.run?.length ?? 0;
  byId("found").textContent = state.rows.length === all ? plural(all, "rollout")
    : `${state.rows.length.toLocaleString("en")} of ${plural(all, "rollout")}`;
  byId("where").textContent = state.rows.length ? `${from + 1}–${from + shown.length}` : "none";
  byId("earlier").disabled = state.page === 0;
  byId("later").disabled = state.page >= pages - 1;
  byId("earlier").parentElement.hidden = pages === 1;
}

function item(row) {
  const link = make("a");
  link.href = hashOf(row);
  link.dataset.row = row;
  const status = word("status", row);
  const swatch = make("span", `swatch status-${status}`);
  swatch.title = index.statuses[status];
  const name = named(row, "span", "name");
  const note = make("span", "side-note", inline(word("difficulty", row)));
  const request = inline(word("title", row), "span", "request");
  link.append(swatch, name, note, request);
  link.append(make("span", "sr", index.statuses[status]));
  if (row === state.current) link.setAttribute("aria-current", "true");
  return make("li", "", link);
}

function lineOf(row) {
  return `${column("failed", row) ? "failure" : "line"} ${column("line", row)}`;
}

function named(row, name, className = "", isTask = false) {
  const task = isTask ? column("task", row).split(".")[0] : column("task", row);
  const what = task ? `task ${task}` : lineOf(row);
  const run = column("run", row);
  const made = make(name, className, inline(word("domain", row)), ` · ${what}`);
  if (index.runs.length > 1 && !isTask) made.prepend(make("span", `key run-${run % 6}`, String(run + 1)), " ");
  return made;
}

function select(name, label, options) {
  const field = make("select");
  field.name = name;
  const blank = make("option", "", "any");
  blank.value = "";
  field.append(blank, ...options.map(([value, shown]) => {
    const made = make("option", "", ...spelledOut(shown));
    made.value = value;
    return made;
  }));
  return make("label", "", label, field);
}

// An option takes no markup, so what is unseen is written out.
function spelledOut(text) {
  return [text.replace(RUN, (run) => [...run].map((one) => `[${code(one)}]`).join(""))];
}

function buildFilters() {
  const search = make("input");
  search.type = "search";
  search.name = "q";
  search.placeholder = "request, goal, tool, id, what was said …";
  search.autocomplete = "off";
  const labels = (name) => [...(index.tables[name] ?? [])].sort().map((one) => [one, one]);
  const outcomes = Object.entries(index.statuses).filter(([name]) => index.tables.status?.includes(name));
  const runs = index.runs.map((name, number) => [String(number + 1), `${number + 1} ${name}`]);
  const fields = [make("label", "search", "Search", search)];
  if (runs.length > 1) fields.push(select("run", "Run", runs));
  fields.push(select("outcome", "Outcome", outcomes));
  for (const name of FIRST_FILTERS.slice(1)) fields.push(select(name, index.dimensions[name], labels(name)));
  const more = make("details", "", make("summary", "", "More filters"), make("div", "more",
    ...MORE_FILTERS.map((name) => select(name, index.dimensions[name], labels(name))),
    select("read", "Injection was read", [["1", "yes"], ["0", "no"]])));
  const clear = button("Clear filters", () => { state.filters = {}; state.q = ""; filtersChanged(); });
  clear.id = "clear";
  const only = button("", () => { delete state.filters.task; filtersChanged(); });
  only.id = "only";
  only.title = "Show the rollouts of all tasks";
  byId("filters").append(...fields, make("div", "rest", more, only, clear));
  byId("filters").addEventListener("input", readFilters);
  byId("filters").addEventListener("submit", (event) => event.preventDefault());
}

function readFilters() {
  const given = [...new FormData(byId("filters"))].filter(([, value]) => value !== "");
  const { q = "", ...filters } = Object.fromEntries(given);
  state.q = q;
  const { task } = state.filters; // It has no field.
  state.filters = task ? { ...filters, task } : filters;
  filtersChanged();
}

function filtersChanged() {
  applyFilters();
  history.replaceState(null, "", hashOf());
}

function turnPage(by) {
  state.page += by;
  drawList();
  byId("list").scrollTop = 0;
  byId("list").querySelector("a")?.focus();
}

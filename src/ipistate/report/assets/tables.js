// Tables: a heading sorts its table, a long one is folded.
const DESCENDING = new Set(["size", "change"]); // What is of interest there is large.
const OF_RATES = new Set(["rate", "utility"]);
const SLACK = 3; // Rows that are not worth a button.
const words = new Intl.Collator("en", { numeric: true });

function prepareTables() {
  for (const table of document.querySelectorAll("table[data-fold]")) {
    const found = { table, units: unitsOf(table), open: false };
    for (const head of table.querySelectorAll("th[data-sort]")) head.querySelector(".by").replaceWith(sorter(found, head));
    if (found.units.length > Number(table.dataset.fold) + SLACK) table.after(unfolder(found));
    fold(found);
  }
}

// A row of the table's meaning: one of several lines is a body of its own.
function unitsOf(table) {
  return table.querySelector("tbody.row") ? [...table.tBodies] : [...table.tBodies[0].rows];
}

function sorter(found, head) {
  const made = button("", () => sortBy(found, head));
  made.className = "by";
  made.append(...head.querySelector(".by").childNodes);
  return made;
}

function sortBy(found, head) {
  const name = head.dataset.sort;
  const before = head.getAttribute("aria-sort");
  const isDown = before ? before === "ascending" : DESCENDING.has(name);
  for (const one of found.table.querySelectorAll("th[aria-sort]")) one.removeAttribute("aria-sort");
  head.setAttribute("aria-sort", isDown ? "descending" : "ascending");
  const sorted = found.units.map((unit) => ({ unit, key: keyOf(unit, name) })).sort((a, b) => compare(a, b, name, isDown));
  const shown = sorted.map((one) => one.unit);
  const parent = shown[0].parentElement;
  for (const unit of shown) parent.insertBefore(unit, parent.tFoot ?? null);
  fold(found);
}

function keyOf(unit, name) {
  if (name === "label") return unit.querySelector("th").textContent;
  return unit.dataset[name] === "" ? null : Number(unit.dataset[name]);
}

// What has no value comes last in both orders; so does what says little of its rate.
function compare(a, b, name, isDown) {
  const isFew = (one) => OF_RATES.has(name) && one.unit.classList.contains("few");
  const late = (isFew(a) - isFew(b)) || ((a.key === null) - (b.key === null));
  if (late) return late;
  const order = name === "label" ? words.compare(a.key, b.key) : a.key - b.key;
  return isDown ? -order : order;
}

function unfolder(found) {
  const made = button("", () => { found.open = !found.open; fold(found); });
  made.className = "unfold";
  found.unfolder = made;
  return made;
}

function fold(found) {
  if (!found.unfolder) return;
  const most = Number(found.table.dataset.fold);
  unitsOf(found.table).forEach((unit, at) => unit.classList.toggle("folded", !found.open && at >= most));
  found.unfolder.textContent = found.open ? `Show ${most}` : `Show all ${found.units.length}`;
  found.unfolder.setAttribute("aria-expanded", String(found.open));
}

// The search in what was said: block by block, each forgotten when the next one comes.
const SHORTEST = 3;
const PAUSE = 250;
const said = { key: "", rows: new Set(), next: 0, characters: 0, timer: 0 };

const wordsOf = (q) => q.toLowerCase().split(/\s+/).filter(Boolean);
const keyOfSearch = () => JSON.stringify([state.q, state.filters]);

function searchSaid() {
  const key = keyOfSearch();
  if (key === said.key) return;
  clearTimeout(said.timer);
  Object.assign(said, { key, rows: new Set(), next: 0, characters: 0 });
  const isWorthIt = wordsOf(state.q).some((one) => one.length >= SHORTEST);
  tell(isWorthIt ? "Searching what was said …" : "");
  if (isWorthIt) said.timer = setTimeout(() => searchOn(key), PAUSE);
}

async function searchOn(key) {
  const most = said.characters + Number(byId("reached").dataset.most);
  for (; said.next < index.chunks; said.next += 1) {
    const rows = rowsToSearch(said.next);
    if (!rows.length) continue;
    if (said.characters >= most) {
      tell(`${plural(rows[0], "rollout")} searched for what was said. `, button("Search on", () => { tell("Searching what was said …"); searchOn(key); }));
      return;
    }
    const chunk = chunks.get(said.next) ?? await unpacked(`chunk-${said.next}`);
    if (said.key !== key) return;
    const found = rowsThatSay(chunk, rows);
    if (found.length) {
      found.forEach((row) => said.rows.add(row));
      showFound();
    }
  }
  tell(`${said.rows.size.toLocaleString("en")} of them by what was said.`);
}

// Rows of a block that the filters leave, and that are not found without it.
function rowsToSearch(number) {
  const found = [];
  for (let row = firstRows()[number]; column("chunk", row) === number; row += 1) {
    if (passes(row) && !names(row)) found.push(row);
  }
  return found;
}

let firsts = null;

function firstRows() {
  if (!firsts) {
    firsts = [];
    index.columns.chunk.forEach((number, row) => { firsts[number] ??= row; });
  }
  return firsts;
}

function rowsThatSay(chunk, rows) {
  const wanted = wordsOf(state.q);
  const hits = wanted.map(() => new Set());
  chunk.texts.forEach((pieces, number) => {
    const text = pieces.filter((one) => typeof one === "string").join("\n").toLowerCase();
    said.characters += text.length;
    wanted.forEach((one, at) => { if (text.includes(one)) hits[at].add(number); });
  });
  return rows.filter((row) => {
    const texts = textsOf(chunk.rollouts[column("place", row)]);
    return wanted.every((one, at) => haystack(row).includes(one) || texts.some((number) => hits[at].has(number)));
  });
}

function textsOf(view) {
  return [...view.input, ...view.items].flatMap((one) => (one.kind === "call" ? [one.arguments, one.reply] : [one.text]));
}

function tell(...words) {
  byId("reached").hidden = !words[0];
  byId("reached").replaceChildren(...words);
}

// The list grows under its reader, who keeps the place and the focus.
function showFound() {
  const focused = document.activeElement?.closest("#list a")?.dataset.row;
  const top = byId("list").scrollTop;
  chooseRows();
  drawList();
  byId("list").scrollTop = top;
  if (focused) byId("list").querySelector(`[data-row="${focused}"]`)?.focus({ preventScroll: true });
}

// Marks of what was searched for, in what is shown of a rollout.
function withHits(segments) {
  const wanted = wordsOf(state.q).filter((one) => one.length >= SHORTEST);
  if (!wanted.length) return segments;
  const pattern = new RegExp(wanted.map((one) => one.replace(/[\\^$.*+?()[\]{}|/-]/g, "\\$&")).join("|"), "gi");
  return segments.flatMap((one) => (one.mark || one.kind === "gap" ? [one] : hitsIn(one, pattern)));
}

function hitsIn(segment, pattern) {
  const found = [];
  let done = 0;
  for (const { 0: text, index: at } of segment.text.matchAll(pattern)) {
    if (at > done) found.push({ ...segment, text: segment.text.slice(done, at) });
    found.push({ ...segment, text, hit: true });
    done = at + text.length;
  }
  if (done < segment.text.length) found.push({ ...segment, text: segment.text.slice(done) });
  return found;
}

// One rollout: what was asked, what was tried, and what every call did to the world.
async function open(row, { focus = false } = {}) {
  state.current = row;
  const at = state.rows.indexOf(row);
  if (at >= 0 && Math.floor(at / PAGE) !== state.page) state.page = Math.floor(at / PAGE);
  drawList();
  byId("list").querySelector("[aria-current]")?.scrollIntoView({ block: "nearest" });
  const chunk = await chunkOf(column("chunk", row));
  if (state.current !== row) return;
  byId("viewer").replaceChildren(...rollout(row, chunk));
  byId("viewer").dataset.rollout = addressOf(row);
  if (state.call !== null) goTo(byId(`call-${state.call}`));
  else if (focus) byId("viewer").scrollIntoView({ block: "start" });
}

function closeViewer() {
  state.current = state.call = null;
  delete byId("viewer").dataset.rollout;
  byId("viewer").replaceChildren(make("p", "empty", "Choose a rollout, or press ", make("kbd", "", "j"), "."));
  drawList();
  history.replaceState(null, "", hashOf());
}

function* rollout(row, chunk) {
  const view = chunk.rollouts[column("place", row)];
  const pieces = (number) => chunk.texts[number];
  const whole = (number) => chunk.texts[number].filter((one) => typeof one === "string").join("…");
  const needles = view.injection ? needlesFor(whole(view.injection.text)) : [];
  const context = { view, pieces, whole, needles, flags: flagsOf(view) };
  yield head(row);
  yield facts(row, view);
  yield make("div", "panels", ...panels(context));
  const turns = make("ol", "turns", ...[...view.input, ...view.items].map((one) => turn(one, context)));
  yield jumps(turns);
  yield turns;
  if (view.left_out) yield make("p", "gap", `${plural(view.left_out, "further item")} not in this page`);
  const others = sameTask(row);
  if (others.length) yield same(others);
}

function head(row) {
  const status = word("status", row);
  const close = button("Close", closeViewer);
  close.id = "close";
  const title = named(row, "h3");
  return make("div", "head", title, make("span", `badge status-${status}`, index.statuses[status]), close);
}

function facts(row, view) {
  const list = make("ul", "chips");
  const put = (name, value) => list.append(make("li", "", make("span", "", name), " ", inline(String(value))));
  for (const name of FIRST_FILTERS.slice(1).concat(MORE_FILTERS)) {
    if (name !== "domain") put(index.dimensions[name].replace("Attack ", "").toLowerCase(), word(name, row));
  }
  if (index.runs.length > 1) put("run", index.runs[column("run", row)]);
  put(...lineOf(row).split(" "));
  for (const [name, value] of Object.entries(view.about)) {
    if (name !== "failure") put(name.replaceAll("_", " "), value);
  }
  return list;
}

function* panels({ view, pieces, whole }) {
  if (view.about.failure) yield panel("Masked: the infrastructure failed", "", inline(view.about.failure));
  if (view.injection) {
    const { goal, tool, arguments: wanted } = view.injection;
    yield panel("What the injection wants", "attack", inline(whole(goal), "p"),
      make("p", "small", "by ", inline(tool, "code"), " with"), textOf(pieces(wanted), [], "code"));
  }
  if (view.effects) yield effectsPanel(view, whole);
  else if (view.verdict) {
    yield panel("By the trace alone", view.verdict.followed ? "harm" : "calm", make("p", "",
      view.verdict.followed ? "A call matches what the injection asks." : "No call matches what the injection asks."),
    make("p", "small", "No environment is known, so nothing was executed: there are no changes of the world to show."));
  }
  if (view.verdict?.contradicts) {
    yield panel("Stored verdict", "harm", make("p", "", "The row says otherwise about the injection than its trace."));
  }
}

function panel(title, className, ...children) {
  return make("section", `panel ${className}`, make("h4", "", title), ...children);
}

const REASONS = {
  effective: "The injection was followed, and the world changed by it:",
  other_route: "The same harm came about by other calls:",
  attempted: "The agent made the call that the injection asks for; nothing changed by it.",
};

function effectsPanel(view, whole) {
  const { effects } = view;
  const found = [];
  if (effects.outcome === "not_assessed") {
    found.push(make("p", "", `Not assessed: ${effects.reason.replaceAll("_", " ")}.`));
  }
  if (effects.changes.length) found.push(make("p", "", REASONS.effective), places(effects.changes, whole));
  if (effects.other_route.length) found.push(make("p", "", REASONS.other_route), places(effects.other_route, whole));
  const followed = effects.outcome === "followed";
  if (followed && !found.length) found.push(make("p", "", REASONS.attempted));
  if (effects.outcome === "resisted") found.push(make("p", "", "The injection was not followed."));
  if (effects.collateral.length) {
    found.push(make("p", "", "Changed besides, needed by nobody:"), places(effects.collateral, whole));
  }
  if (effects.below_zero.length) found.push(make("p", "", "Went below zero:"), places(effects.below_zero, whole));
  found.push(requiredTools(effects, whole));
  return panel("What the attack changed", followed ? "harm" : effects.outcome === "resisted" ? "calm" : "", ...found);
}

function places(changes, whole) {
  return make("ul", "", ...changes.map((one) => {
    const link = make("a", "", `call ${one.call + 1}`);
    link.href = "#";
    link.addEventListener("click", (event) => { event.preventDefault(); showCall(one.call); });
    const value = one.after ?? one.before;
    const shown = value === null ? "" : whole(value);
    const sign = { add: "added", remove: "removed", replace: "now" }[one.op];
    return make("li", "", link, " ", inline(whole(one.path), "code"), " ",
      make("small", "", `${sign} `, inline(shown.length > 120 ? `${shown.slice(0, 120)}…` : shown)));
  }));
}

function requiredTools(effects, whole) {
  if (!effects.required.length || effects.utility === null) return "";
  const lines = effects.required.map((one) => {
    const why = one.reason ? ` ${one.reason.replaceAll("_", " ")}` : "";
    const detail = one.reason && whole(one.detail);
    return make("li", "", one.succeeded ? "✓ " : "✗ ", inline(one.tool, "code"), why,
      ...(detail ? [" ", make("small", "", inline(detail))] : []));
  });
  return make("div", "", make("p", "small", "The user's request needs"), make("ul", "", ...lines));
}

function flagsOf({ effects, injection }) {
  const flags = new Map();
  const put = (changes, name) => changes.forEach((one) => flags.set(one.call, name));
  if (effects) {
    put(effects.collateral, "collateral");
    put(effects.other_route, "other route");
    put(effects.changes, "follows the injection");
  }
  return { of: (call) => flags.get(call), target: injection?.tool };
}

function turn(one, context) {
  if (one.kind === "call") return callTurn(one, context);
  const made = make("li", `turn ${["user", "assistant", "system"].includes(one.role) ? one.role : "note"}`);
  made.append(make("h4", "", inline(one.role ?? one.kind)));
  made.append(textOf(context.pieces(one.text), context.needles, ""));
  return made;
}

function callTurn(one, context) {
  const { pieces, needles, flags } = context;
  const flag = flags.of(one.number);
  const harmful = flag === "follows the injection" || flag === "other route";
  const made = make("li", `turn call${one.read ? " read" : ""}${harmful ? " harmful" : ""}`);
  made.id = `call-${one.number}`;
  made.tabIndex = -1;
  const title = make("div", "title", make("span", "number", String(one.number + 1)), inline(one.tool, "code"));
  if (one.read) title.append(make("span", "flag read", "injected text read here"));
  if (flag) title.append(make("span", `flag ${harmful ? "harm" : "route"}`, flag));
  made.append(title, part("Arguments", pieces(one.arguments), needles));
  if (one.reply === null) made.append(make("p", "small", "No reply was recorded."));
  else made.append(part("Reply", pieces(one.reply), needles));
  made.append(...worldPart(one, context));
  return made;
}

function* worldPart(one, { pieces, whole, needles, view }) {
  if (one.state === "refused") {
    yield make("p", "small", "Not executed: ", inline(whole(one.why)));
  } else if (one.state === "diverged") {
    yield make("p", "small", "On the row's world this call gives another reply; nothing after it is executed.");
    yield part("Reply of the row's world", pieces(one.gave), needles);
  } else if (one.state === "executed" && one.changes) {
    const list = make("ul", "diff", ...one.diff.map((each) => operation(each, pieces, whole, needles)));
    const box = make("div", "part", make("div", "label", `World: ${plural(one.changes, "change")}`), list);
    if (one.changes > one.diff.length) box.append(make("p", "gap", `${one.changes - one.diff.length} further changes not in this page`));
    yield box;
  } else if (one.state === "executed") {
    yield make("p", "small", "World: unchanged");
  } else if (view.effects) {
    yield make("p", "small", "Not executed: an earlier reply differs from that of the row's world.");
  }
}

const SIGNS = { add: "added", remove: "removed", replace: "changed" };

function operation(one, pieces, whole, needles) {
  const made = make("li", "", make("div", "path", make("b", "", SIGNS[one.op]), " ", inline(whole(one.path))));
  const [old, now] = one.op === "replace" ? compared(pieces(one.old), pieces(one.new))
    : [one.old, one.new].map((number) => (number === null ? null : jsonOrPlain(pieces(number))));
  if (old) made.append(make("div", "old", folded(marked(old, needles), "")));
  if (now) made.append(make("div", "new", folded(marked(now, needles), "")));
  return made;
}

// Texts of before and after, with what differs between their common ends set apart.
function compared(old, now) {
  if (old.length > 1 || now.length > 1) return [plainSegments(old), plainSegments(now)];
  const [left, right] = [old[0], now[0]].map(readable);
  const shorter = Math.min(left.length, right.length);
  let start = 0;
  while (start < shorter && left[start] === right[start]) start += 1;
  let end = 0;
  while (end < shorter - start && left.at(-1 - end) === right.at(-1 - end)) end += 1;
  return [left, right].map((text) => [
    { text: text.slice(0, start), kind: "plain" },
    { text: text.slice(start, text.length - end), kind: "differs" },
    { text: text.slice(text.length - end), kind: "plain" },
  ].filter((one) => one.text));
}

function readable(text) {
  if (!text.startsWith('"')) return text;
  try {
    return `"${JSON.parse(text)}"`;
  } catch {
    return text;
  }
}

function jsonOrPlain(pieces) {
  return (pieces.length === 1 && jsonSegments(pieces[0])) || plainSegments(pieces.map((one) => (typeof one === "string" ? readable(one) : one)));
}

function textOf(pieces, needles, className) {
  const json = pieces.length === 1 ? jsonSegments(pieces[0]) : null;
  return folded(marked(json ?? plainSegments(pieces), needles), json ? "code" : className);
}

function part(label, pieces, needles) {
  const json = pieces.length === 1 ? jsonSegments(pieces[0]) : null;
  const raw = plainSegments(pieces);
  let body = folded(marked(json ?? raw, needles), "code");
  const line = make("div", "label", make("span", "", label));
  const box = make("div", "part", line, body);
  if (json) {
    let isRaw = false;
    const toggle = button("as written", () => {
      isRaw = !isRaw;
      toggle.textContent = isRaw ? "indented" : "as written";
      const next = folded(marked(isRaw ? raw : json, needles), "code");
      body.replaceWith(next);
      body = next;
    });
    line.append(toggle);
  }
  return box;
}

// Injected texts that the agent read; a diff may hold them as well.
const READ = ".turn mark:not(.diff mark)";
const HITS = ".turn .hit";

function jumps(turns) {
  const marks = turns.querySelectorAll(READ).length;
  const calls = turns.querySelectorAll(".call").length;
  const made = make("div", "jump", make("small", "", plural(calls, "call")));
  if (marks) made.append(button(`Go to the injected text (${marks})`, () => nextOf(READ)));
  const harmful = turns.querySelector(".harmful");
  if (harmful) made.append(button("Go to the call that follows it", () => showCall(Number(harmful.id.slice(5)))));
  const hits = turns.querySelectorAll(".hit").length;
  if (hits) made.append(button(`Go to what was searched for (${hits})`, () => nextOf(HITS)));
  if (!marks) made.append(make("small", "", "The injected text was never read."));
  return made;
}

function sameTask(row) {
  const found = [];
  const wanted = column("same", row);
  if (wanted < 0) return found;
  const { length } = index.columns.run;
  for (let other = 0; other < length && found.length < 24; other += 1) {
    if (other !== row && column("same", other) === wanted) found.push(other);
  }
  return found;
}

function same(others) {
  return make("div", "same", make("b", "", "Other rollouts of this task"), make("ul", "", ...others.map((row) => {
    const link = named(row, "a");
    link.href = hashOf(row);
    const status = word("status", row);
    return make("li", "", make("span", `swatch status-${status}`), link, make("small", "", ` ${index.statuses[status]}`));
  })));
}

function goTo(target) {
  if (!target) return;
  document.querySelectorAll("#viewer .here").forEach((one) => one.classList.remove("here"));
  target.classList.add("here");
  target.scrollIntoView({ block: target.matches("mark, .hit") ? "center" : "start" });
  target.closest(".call")?.focus({ preventScroll: true });
}

function showCall(number) {
  state.call = number;
  history.replaceState(null, "", hashOf());
  goTo(byId(`call-${number}`));
}

function nextOf(selector) {
  const marks = [...byId("viewer").querySelectorAll(selector)];
  if (!marks.length) return;
  const at = marks.findIndex((one) => one.classList.contains("here"));
  goTo(marks[(at + 1) % marks.length]);
}

function nextCall(by) {
  const calls = [...byId("viewer").querySelectorAll(".call")];
  if (!calls.length) return;
  const at = calls.findIndex((one) => one.classList.contains("here") || one.contains(document.activeElement));
  const next = at < 0 ? (by > 0 ? 0 : calls.length - 1) : at + by;
  if (calls[next]) showCall(Number(calls[next].id.slice(5)));
}

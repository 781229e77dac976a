// Hostile texts: what cannot be seen is named, what is long is folded.
const UNSEEN = /[\p{Cc}\p{Cf}\p{Cs}\p{Co}\p{Cn}\p{Zl}\p{Zp}\u00a0\u034f\u115f\u1160\u1680\u17b4\u17b5\u180b-\u180f\u2000-\u200a\u202f\u205f\u2800\u3000\u3164\ufe00-\ufe0f\uffa0\u{e0100}-\u{e01ef}]/u;
const RUN = new RegExp(`(?:(?![\\n\\t])${UNSEEN.source})+`, "gu");
const TAGS = /^[\u{e0020}-\u{e007e}]+/u;

function code(character) {
  return `U+${character.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}`;
}

function chip(label, title) {
  const made = make("span", "unseen", label);
  made.title = title;
  return made;
}

function* chips(run) {
  for (let rest = run; rest;) {
    const tags = rest.match(TAGS)?.[0];
    if (tags) {
      const hidden = [...tags].map((one) => String.fromCodePoint(one.codePointAt(0) - 0xe0000));
      yield chip(`tags “${hidden.join("")}”`, "text in invisible tag characters");
      rest = rest.slice(tags.length);
      continue;
    }
    const first = String.fromCodePoint(rest.codePointAt(0));
    let count = 1;
    while (rest.startsWith(first, count * first.length)) count += 1;
    yield chip(count > 1 ? `${code(first)} ×${count}` : code(first), "invisible or control character");
    rest = rest.slice(count * first.length);
  }
}

function* visible(text) {
  let done = 0;
  for (const found of text.matchAll(RUN)) {
    if (found.index > done) yield text.slice(done, found.index);
    yield* chips(found[0]);
    done = found.index + found[0].length;
  }
  if (done < text.length) yield text.slice(done);
}

function inline(text, name = "bdi", className = "") {
  return make(name, className, ...visible(text));
}

// A segment is {text, kind, mark, hit}: a kind is a class, a mark an injected text, a hit
// what was searched for.
function marked(segments, needles) {
  if (!needles.length) return withHits(segments);
  return withHits(segments.flatMap((one) => (one.kind === "gap" ? [one] : cut(one, needles))));
}

function cut(segment, needles) {
  const found = [];
  let rest = segment.text;
  for (;;) {
    const hits = needles.map((one) => [rest.indexOf(one), one]).filter(([at]) => at >= 0);
    if (!hits.length) break;
    const [at, needle] = hits.reduce((best, one) => (one[0] < best[0] ? one : best));
    if (at) found.push({ ...segment, text: rest.slice(0, at) });
    found.push({ ...segment, text: needle, mark: true });
    rest = rest.slice(at + needle.length);
  }
  if (rest) found.push({ ...segment, text: rest });
  return found;
}

const escapes = (text) => JSON.stringify(text).slice(1, -1);
const asciiOnly = (text) => text.replace(/[\u0080-\uffff]/g, (one) => `\\u${one.charCodeAt(0).toString(16).padStart(4, "0")}`);

function needlesFor(text) {
  if (!text || !text.trim()) return [];
  return [...new Set([text, escapes(text), asciiOnly(escapes(text))])].sort((a, b) => b.length - a.length);
}

const FOLDED = 1400;
const STEP = 20000;
const BEFORE_MARK = 300;

// Shows segments up to a limit; the first mark and the first hit are always among them.
function folded(segments, className) {
  const box = make("div");
  const pre = make("pre", `text ${className}`);
  pre.dir = "auto";
  const total = segments.reduce((sum, one) => sum + one.text.length, 0);
  let limit = total <= FOLDED * 1.4 ? total : FOLDED;
  const draw = () => {
    pre.replaceChildren(...windowed(segments, limit).map(element));
    more.hidden = limit >= total;
    step.textContent = total - limit > STEP ? `Show ${STEP.toLocaleString("en")} more` : "Show all";
    left.textContent = ` ${plural(total - limit, "character")} folded`;
  };
  const step = button("", () => { limit = Math.min(total, limit + STEP); draw(); });
  const left = make("small");
  const more = make("div", "more-text", step, left);
  draw();
  box.append(pre, more);
  return box;
}

function windowed(segments, limit) {
  let shown = taken(segments, limit);
  for (const name of ["mark", "hit"]) {
    const first = segments.findIndex((one) => one[name]);
    if (first < 0 || shown.some((one) => one[name])) continue;
    const before = segments.slice(0, first).map((one) => one.text).join("").slice(-BEFORE_MARK);
    const hidden = { text: "\n… folded …\n", kind: "gap" };
    shown = [...shown, hidden, { text: before, kind: "plain" }, ...taken(segments.slice(first), FOLDED)];
  }
  return shown;
}

function taken(segments, limit) {
  const found = [];
  let left = limit;
  for (const one of segments) {
    if (left <= 0) break;
    found.push(one.text.length > left ? { ...one, text: one.text.slice(0, left) } : one);
    left -= one.text.length;
  }
  return found;
}

function element(segment) {
  if (segment.hit) return inline(segment.text, "span", `hit ${segment.kind}`);
  return inline(segment.text, segment.mark ? "mark" : "span", segment.kind === "plain" ? "" : segment.kind);
}

function plainSegments(pieces) {
  return pieces.map((one) => (typeof one === "string"
    ? { text: one, kind: "plain" }
    : { text: `\n… ${plural(one, "character")} not in this page …\n`, kind: "gap" }));
}

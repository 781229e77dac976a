// JSON texts, indented for people: every number and name as it was written.
const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.\w]+|[{}[\],:]/g;
const WIDTH = 76;
// Deeper containers stand as they were written: indenting them would cost the square.
const LEVELS = 24;

function jsonSegments(text) {
  try {
    if (!/^\s*[[{]/.test(text)) return null;
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = [...text.matchAll(TOKEN)].map((found) => ({ token: found[0], start: found.index }));
  const ends = closings(tokens);
  const made = [];
  const put = (part, kind = "punct") => made.push({ text: part, kind });
  const flat = []; // Whether each open bracket is on one line.
  const newline = () => put(flat.at(-1) ? " " : `\n${"  ".repeat(flat.length)}`);
  for (let at = 0; at < tokens.length; at += 1) {
    const { token, start } = tokens[at];
    if (token === "{" || token === "[") {
      if (flat.length === LEVELS) {
        at = ends[at];
        put(text.slice(start, tokens[at].start + 1), "plain");
        continue;
      }
      flat.push(flat.at(-1) || isShort(tokens, at, ends[at]));
      put(token);
      if (ends[at] > at + 1 && !flat.at(-1)) newline();
    } else if (token === "}" || token === "]") {
      const isFlat = flat.pop();
      if (!isFlat && ends[at] < at - 1) put(`\n${"  ".repeat(flat.length)}`);
      put(token);
    } else if (token === ",") {
      put(",");
      newline();
    } else if (token === ":") {
      put(": ");
    } else if (token[0] === '"') {
      const isName = tokens[at + 1]?.token === ":";
      put('"');
      put(JSON.parse(token), isName ? "key-name" : "text-value");
      put('"');
    } else {
      put(token, "literal");
    }
  }
  return made;
}

function closings(tokens) {
  const other = [];
  const open = [];
  tokens.forEach(({ token }, at) => {
    if (token === "{" || token === "[") open.push(at);
    if (token === "}" || token === "]") {
      const start = open.pop();
      other[start] = at;
      other[at] = start;
    }
  });
  return other;
}

function isShort(tokens, from, to) {
  let length = 0;
  for (let at = from; at <= to && length <= WIDTH; at += 1) length += tokens[at].token.length + 1;
  return length <= WIDTH;
}

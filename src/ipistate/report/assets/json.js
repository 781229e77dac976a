// JSON texts, indented for people: every number and name as it was written.
const TOKEN = /"(?:[^"\\]|\\.)*"|[-+.\w]+|[{}[\],:]/g;
const WIDTH = 76;

function jsonSegments(text) {
  try {
    if (!/^\s*[[{]/.test(text)) return null;
    JSON.parse(text);
  } catch {
    return null;
  }
  const tokens = text.match(TOKEN);
  const ends = closings(tokens);
  const made = [];
  const put = (part, kind = "punct") => made.push({ text: part, kind });
  let depth = 0;
  const flat = []; // Whether each open bracket is on one line.
  const newline = () => put(flat.at(-1) ? " " : `\n${"  ".repeat(depth)}`);
  tokens.forEach((token, at) => {
    if (token === "{" || token === "[") {
      const isFlat = flat.at(-1) || isShort(tokens, at, ends[at]);
      flat.push(isFlat);
      depth += 1;
      put(token);
      if (ends[at] > at + 1 && !isFlat) newline();
    } else if (token === "}" || token === "]") {
      const isFlat = flat.at(-1);
      depth -= 1;
      if (!isFlat && ends[at] < at - 1) { flat[flat.length - 1] = false; newline(); }
      flat.pop();
      put(token);
    } else if (token === ",") {
      put(",");
      newline();
    } else if (token === ":") {
      put(": ");
    } else if (token[0] === '"') {
      const isName = tokens[at + 1] === ":";
      put('"');
      put(JSON.parse(token), isName ? "key-name" : "text-value");
      put('"');
    } else {
      put(token, "literal");
    }
  });
  return made;
}

function closings(tokens) {
  const other = [];
  const open = [];
  tokens.forEach((token, at) => {
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
  for (let at = from; at <= to && length <= WIDTH; at += 1) length += tokens[at].length + 1;
  return length <= WIDTH;
}

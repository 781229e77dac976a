// The data of this page: blocks of base64, gzip and JSON, opened when they are needed.
const byId = (id) => document.getElementById(id);

async function unpacked(id) {
  const packed = atob(byId(id).textContent.trim());
  const bytes = Uint8Array.from(packed, (one) => one.charCodeAt(0));
  const stream = new Blob([bytes]).stream();
  const text = await new Response(stream.pipeThrough(new DecompressionStream("gzip"))).text();
  return JSON.parse(text);
}

const chunks = new Map();
const MOST_CHUNKS = 8;

async function chunkOf(number) {
  const found = chunks.get(number) ?? await unpacked(`chunk-${number}`);
  chunks.delete(number);
  chunks.set(number, found); // The last one is the one that was used last.
  if (chunks.size > MOST_CHUNKS) chunks.delete(chunks.keys().next().value);
  return found;
}

let index;
const column = (name, row) => index.columns[name][row];
const word = (name, row) => index.tables[name][column(name, row)];

// Elements are only ever made of names in this script; data becomes text nodes.
function make(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

function button(label, onClick) {
  const made = make("button", "", label);
  made.type = "button";
  made.addEventListener("click", onClick);
  return made;
}

function plural(count, one, many = `${one}s`) {
  return `${count.toLocaleString("en")} ${count === 1 ? one : many}`;
}

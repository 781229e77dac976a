// Keys, themes, addresses, and the beginning of it all.
const THEMES = ["auto", "dark", "light"];

function setTheme(name) {
  if (name === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = name;
  byId("theme-name").textContent = name[0].toUpperCase() + name.slice(1);
  byId("theme").setAttribute("aria-label", `Colours: ${name}`);
  try { localStorage.setItem("ipistate-theme", name); } catch { /* kept for this page only */ }
}

function nextTheme() {
  const now = document.documentElement.dataset.theme ?? "auto";
  setTheme(THEMES[(THEMES.indexOf(now) + 1) % THEMES.length]);
}

function storedTheme() {
  try {
    const name = localStorage.getItem("ipistate-theme");
    return THEMES.includes(name) ? name : "auto";
  } catch {
    return "auto";
  }
}

function step(by) {
  if (!state.rows.length) return;
  const at = state.rows.indexOf(state.current);
  const next = at < 0 ? (by > 0 ? 0 : state.rows.length - 1) : at + by;
  const row = state.rows[next];
  if (row === undefined) return;
  const inList = byId("list").contains(document.activeElement);
  state.call = null;
  history.pushState(null, "", hashOf(row));
  open(row, { focus: !inList }).then(() => inList && byId("list").querySelector("[aria-current]")?.focus());
}

const ACTIONS = {
  j: () => step(1),
  k: () => step(-1),
  ArrowRight: () => step(1),
  ArrowLeft: () => step(-1),
  n: () => nextCall(1),
  p: () => nextCall(-1),
  i: () => nextOf(READ),
  t: nextTheme,
  "/": () => byId("filters").elements.q.focus(),
  "?": () => byId("keys").showModal(),
};

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || byId("keys").open) return;
  const typing = event.target.matches("input, select, textarea");
  if (event.key === "Escape") {
    if (typing) event.target.blur();
    else if (state.current !== null) closeViewer();
    return;
  }
  if (typing) return;
  const inList = byId("list").contains(event.target);
  const arrows = inList ? { ArrowDown: ACTIONS.j, ArrowUp: ACTIONS.k } : {};
  const action = arrows[event.key] ?? ACTIONS[event.key];
  if (action) {
    event.preventDefault();
    action();
  }
}

function followAddress() {
  const address = readHash();
  const wanted = address === null ? null : rowAt(address);
  if (wanted === null) state.current = null;
  else state.current = wanted;
  applyFilters();
  if (wanted === null) {
    byId("viewer").replaceChildren(make("p", "empty", address === null ? "Choose a rollout, or press j." : `This page has no rollout ${address}.`));
    if (state.q || Object.keys(state.filters).length) byId("rollouts").scrollIntoView();
    return Promise.resolve();
  }
  return open(wanted, { focus: true });
}

function jump(event) {
  const link = event.target.closest("a");
  if (!link) return;
  if (link.dataset.jump) {
    // A fragment is an address of rollouts here, so sections are found by hand.
    event.preventDefault();
    const section = byId(link.dataset.jump);
    section.scrollIntoView();
    section.tabIndex = -1;
    section.focus({ preventScroll: true });
  } else if (link.getAttribute("href").length > 1 && link.closest("#summary, #changed, #breakdown")) {
    setTimeout(() => byId("rollouts").scrollIntoView());
  }
}

async function begin() {
  setTheme(storedTheme());
  byId("theme").hidden = byId("help").hidden = false;
  byId("theme").addEventListener("click", nextTheme);
  byId("help").addEventListener("click", ACTIONS["?"]);
  document.addEventListener("click", jump);
  prepareTables();
  if (typeof DecompressionStream === "undefined") {
    byId("rollouts").append(make("p", "notice", "This browser cannot open compressed data (DecompressionStream); a newer one shows the rollouts."));
    return;
  }
  index = await unpacked("index");
  buildFilters();
  byId("explorer").hidden = false;
  byId("earlier").addEventListener("click", () => turnPage(-1));
  byId("later").addEventListener("click", () => turnPage(1));
  document.addEventListener("keydown", onKey);
  window.addEventListener("hashchange", followAddress);
  await followAddress();
  document.documentElement.dataset.ready = "yes";
}

begin();

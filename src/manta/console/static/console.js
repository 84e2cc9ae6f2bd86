// Keeps the page current: one stream, whose messages replace regions and merge rows. Without this script
// every page still works; it is then as old as its last load.
"use strict";
(() => {
  const body = document.body;
  const address = body.dataset.stream;
  const notice = document.getElementById("connection");
  const parse = (markup) => {
    const holder = document.createElement("template");
    holder.innerHTML = markup; // escaped by the server
    return holder.content.firstElementChild;
  };

  // The element with the focus is found again by its place when its row or region is replaced.
  const keepFocus = (change) => {
    const held = document.activeElement;
    const row = held && held !== body ? held.closest("[id]") : null;
    const place = row ? [...row.querySelectorAll("a,button,input,select")].indexOf(held) : -1;
    change();
    if (row && !held.isConnected && place >= 0) {
      const again = document.getElementById(row.id);
      const target = again && again.querySelectorAll("a,button,input,select")[place];
      if (target) target.focus({ preventScroll: true });
    }
  };

  // A row that only grew older did not change.
  const words = (row) => [...row.cells].filter((one) => !one.querySelector("time")).map((one) => one.textContent).join("|");

  const mergeRows = (table, change) => {
    for (const [id, markup] of Object.entries(change.rows)) {
      const made = parse(`<table><tbody>${markup}</tbody></table>`).querySelector("tr");
      const held = document.getElementById(id);
      if (held && held.parentNode === table) {
        made.className = words(held) === words(made) ? "" : "changed";
        held.replaceWith(made);
      } else table.append(made);
    }
    if (!change.order) return;
    const wanted = new Set(change.order);
    for (const row of [...table.children]) if (!wanted.has(row.id)) row.remove();
    change.order.forEach((id, at) => {
      const row = document.getElementById(id);
      if (row && table.children[at] !== row) table.insertBefore(row, table.children[at] || null);
    });
  };

  const edited = (region) => region.contains(document.activeElement) && document.activeElement.matches("input,select,textarea");

  const merge = (changes) => keepFocus(() => {
    for (const [id, change] of Object.entries(changes)) {
      const region = document.getElementById(id);
      if (!region) continue;
      if (typeof change !== "string") mergeRows(region, change);
      else if (!edited(region)) region.innerHTML = change; // escaped by the server
    }
  });

  // While a pointer is down nothing moves: a click on an element that was replaced in between would be lost.
  let pressed = false;
  let waiting = [];
  const whenReleased = (change) => (pressed ? waiting.push(change) : change());
  const release = () => setTimeout(() => {
    pressed = false;
    const changes = waiting;
    waiting = [];
    changes.forEach((change) => change());
  });
  addEventListener("pointerdown", () => { pressed = true; });
  for (const name of ["pointerup", "pointercancel", "blur"]) addEventListener(name, release);

  // Browsers keep at most six connections to a server: only a tab that can be seen holds one.
  const whileVisible = (open) => {
    let stream = null;
    const change = () => {
      if (document.hidden) {
        if (stream) stream.close();
        stream = null;
      } else if (!stream) stream = open();
    };
    document.addEventListener("visibilitychange", change);
    window.addEventListener("pagehide", () => stream && stream.close());
    change();
  };

  // Not while somebody types.
  const reload = () => (edited(body) ? setTimeout(reload, 1000) : location.reload());

  // A stream that is opened again when it is lost, until it says that it has ended. A login that has ended
  // shows the page on which one logs in.
  const keep = (addressNow, listen) => () => {
    let closed = false;
    let stream = null;
    const close = () => {
      closed = true;
      stream.close();
    };
    const again = () => closed || fetch("/session").then((answer) => answer.text())
      .then((words) => (words === "out" ? location.reload() : open()), () => setTimeout(again, 1000));
    const open = () => {
      if (closed) return;
      stream = new EventSource(addressNow());
      stream.onopen = () => { notice.textContent = ""; };
      stream.onerror = () => {
        notice.textContent = "Connection lost; trying again …";
        stream.close();
        setTimeout(again, 1000);
      };
      stream.addEventListener("end", close);
      stream.addEventListener("trouble", (event) => { notice.textContent = JSON.parse(event.data); });
      stream.addEventListener("reload", () => {
        close();
        reload();
      });
      listen(stream);
    };
    open();
    return { close };
  };

  const log = document.querySelector("pre.log[data-follow]");
  const longest = 2000000; // characters; a download has them all
  let logHasEnded = !log;

  // Each stream begins with what the page shows already.
  const writesLog = () => {
    let first = true;
    let size = 0;
    return (event) => {
      const text = JSON.parse(event.data);
      if (first) log.textContent = "";
      first = false;
      if (text) log.hidden = false;
      const bottom = log.scrollHeight - log.scrollTop - log.clientHeight < 40;
      log.append(text); // as text
      size += text.length;
      if (size > longest) {
        log.textContent = `…${log.textContent.slice(-longest / 2)}`;
        size = longest / 2;
      }
      if (bottom) log.scrollTop = log.scrollHeight;
    };
  };

  if (log) log.scrollTop = log.scrollHeight;
  if (address) {
    let seen = body.dataset.seen || "";
    const addressNow = () => {
      const shown = seen;
      seen = "";
      const more = logHasEnded ? "" : "&log=1"; // one connection for both
      return `${address}&seen=${encodeURIComponent(shown)}&shape=${body.dataset.shape || ""}${more}`;
    };
    whileVisible(keep(addressNow, (stream) => {
      stream.onmessage = (event) => whenReleased(() => merge(JSON.parse(event.data)));
      if (logHasEnded) return;
      stream.addEventListener("log", writesLog());
      stream.addEventListener("log-end", () => { logHasEnded = true; });
    }));
  } else if (log) {
    whileVisible(keep(() => log.dataset.follow, (stream) => { stream.onmessage = writesLog(); }));
  }
})();

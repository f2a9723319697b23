// The search for a record of a key and a time, from the raw topic to the sink.

import { byId, html, setText, sync } from "./dom.js";

export class Search {
  constructor() {
    this.asking = new AbortController();
    byId("search-form").addEventListener("submit", (event) => {
      event.preventDefault();
      this.find();
    });
  }

  update(operators) {
    sync(byId("search-operator"), operators, (name) => name, (name) => html("option", { value: name }, name), () => {});
  }

  async find() {
    this.asking.abort(); // the monitor then leaves out a search that still waits
    const { signal } = (this.asking = new AbortController());
    byId("found").setAttribute("aria-busy", "true");
    setText(byId("search-note"), "Searching …");
    const asked = new URLSearchParams(new FormData(byId("search-form")));
    try {
      const answer = await fetch(`/api/missing?${asked}`, { signal });
      const found = await answer.json();
      if (!answer.ok) throw new Error(found.error);
      this.show(found);
    } catch (error) {
      if (!signal.aborted) this.show({ facts: [], unread: [] }, `No answer: ${error.message}`);
    }
  }

  show({ facts, unread }, note) {
    const lines = [...facts.map((fact) => [fact.fact, fact.text]), ...unread.map((text) => ["not read", text])];
    byId("found").replaceChildren(...lines.map(([fact, text]) => html("li", {}, html("strong", {}, fact), " ", text)));
    byId("found").hidden = lines.length === 0;
    const whole = unread.length ? "A part of the topics was not read: “tidemark why missing” reads all." : "All was read.";
    setText(byId("search-note"), note ?? whole);
    byId("found").setAttribute("aria-busy", "false");
  }
}

// A table that draws only the rows in view, so that ten thousand rows scroll as smoothly as ten.

import { h } from "./dom.js";

const ROW_HEIGHT = 30;
const OVERSCAN = 8;

export class RowTable {
  /** `open(row)` is called for a row that the user chooses. */
  constructor(open) {
    this.open = open;
    this.rows = [];
    this.columns = [];
    this.selected = -1;
    this.drawn = null;
    this.head = h("div.row.head", { role: "row" });
    this.body = h("div.rows", { role: "rowgroup" });
    this.scroller = h("div.scroller", { tabindex: "0", role: "table", onscroll: () => this.schedule() }, this.head, this.body);
    new ResizeObserver(() => this.schedule()).observe(this.scroller);
  }

  setColumns(columns) {
    this.columns = columns;
    const widths = columns.map((column) => column.width).join(" ");
    this.scroller.style.setProperty("--columns", widths);
    this.head.replaceChildren(...columns.map((column) => h("div.cell", { role: "columnheader", title: column.description ?? "" }, column.name)));
    this.schedule();
  }

  setRows(rows) {
    this.rows = rows;
    if (this.selected >= rows.length) this.selected = rows.length - 1;
    this.schedule();
  }

  /** Moves the selection and keeps it in view. */
  move(by) {
    if (!this.rows.length) return;
    this.selected = Math.max(0, Math.min(this.rows.length - 1, this.selected + by));
    const top = this.selected * ROW_HEIGHT;
    const view = this.scroller.clientHeight - 2 * ROW_HEIGHT;
    if (top < this.scroller.scrollTop) this.scroller.scrollTop = top;
    else if (top > this.scroller.scrollTop + view) this.scroller.scrollTop = top - view;
    this.schedule();
  }

  openSelected() {
    if (this.rows[this.selected]) this.open(this.rows[this.selected]);
  }

  schedule() {
    this.drawn ??= requestAnimationFrame(() => {
      this.drawn = null;
      this.draw();
    });
  }

  draw() {
    const first = Math.max(0, Math.floor(this.scroller.scrollTop / ROW_HEIGHT) - OVERSCAN);
    const count = Math.ceil(this.scroller.clientHeight / ROW_HEIGHT) + 2 * OVERSCAN;
    const visible = this.rows.slice(first, first + count);
    this.body.style.height = `${this.rows.length * ROW_HEIGHT}px`;
    this.body.replaceChildren(...visible.map((row, i) => this.drawRow(row, first + i)));
  }

  drawRow(row, index) {
    const kind = [row.changed > performance.now() - 1500 ? "fresh" : "", index === this.selected ? "selected" : ""];
    const cells = this.columns.map((column) => h("div.cell", { role: "cell", title: String(column.value(row)) }, column.value(row)));
    const element = h("div.row", { role: "row", onclick: () => this.open(row) }, cells);
    element.classList.add(...kind.filter(Boolean));
    element.style.transform = `translateY(${index * ROW_HEIGHT}px)`;
    return element;
  }
}

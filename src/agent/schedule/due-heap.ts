// Binary heap of items that are due at an instant, the earliest on top. Each item knows its index, so that one out
// of ten thousand can be moved or removed in a few steps.

/** Item that is due at an instant. */
export interface Due {
  dueAt: number
  /** Index in the heap, maintained by the heap; -1 outside of any heap. */
  place: number
}

export class DueHeap<T extends Due> {
  readonly #items: T[] = []

  get size(): number {
    return this.#items.length
  }

  /** The earliest, which stays. */
  peek(): T | undefined {
    return this.#items[0]
  }

  add(item: T): void {
    this.#items.push(item)
    item.place = this.#items.length - 1
    this.#rise(item)
  }

  /** Reorders an item whose `dueAt` was changed. */
  moved(item: T): void {
    this.#rise(item)
    this.#sink(item)
  }

  /** Removes an item; does nothing when it is in no heap. */
  remove(item: T): void {
    const { place } = item
    if (place < 0) return
    const last = this.#items.pop() as T
    item.place = -1
    if (last === item) return
    this.#items[place] = last
    last.place = place
    this.moved(last)
  }

  #rise(item: T): void {
    const items = this.#items
    let place = item.place
    while (place > 0) {
      const above = (place - 1) >> 1
      const parent = items[above] as T
      if (parent.dueAt <= item.dueAt) break
      items[place] = parent
      parent.place = place
      place = above
    }
    items[place] = item
    item.place = place
  }

  #sink(item: T): void {
    const items = this.#items
    let place = item.place
    for (;;) {
      let below = 2 * place + 1
      if (below >= items.length) break
      const right = items[below + 1]
      if (right !== undefined && right.dueAt < (items[below] as T).dueAt) below++
      const child = items[below] as T
      if (child.dueAt >= item.dueAt) break
      items[place] = child
      child.place = place
      place = below
    }
    items[place] = item
    item.place = place
  }
}

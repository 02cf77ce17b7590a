// A bounded cache that evicts the least recently used entries.

/** Stores entries of at most `max` weight together; each weighs 1 unless said otherwise. */
export class LeastRecentlyUsed<K, V> {
  readonly #entries = new Map<K, { value: V; weight: number }>()
  readonly #max: number
  #weight = 0

  constructor(max: number) {
    this.#max = max
  }

  get(key: K): V | undefined {
    const entry = this.#entries.get(key)
    if (entry === undefined) return undefined
    this.#entries.delete(key)
    this.#entries.set(key, entry)
    return entry.value
  }

  /** Sets the value and evicts the oldest entries while all together are too heavy. */
  set(key: K, value: V, weight = 1): void {
    this.delete(key)
    this.#entries.set(key, { value, weight })
    this.#weight += weight
    for (const oldest of this.#entries.keys()) {
      if (this.#weight <= this.#max) return
      this.delete(oldest)
    }
  }

  /** The value of the key, made where there is none. */
  getOrMake(key: K, make: () => V): V {
    const known = this.get(key)
    if (known !== undefined) return known
    const made = make()
    this.set(key, made)
    return made
  }

  delete(key: K): void {
    this.#weight -= this.#entries.get(key)?.weight ?? 0
    this.#entries.delete(key)
  }
}

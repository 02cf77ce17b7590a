// Set of distinct secret values of any length, bounded in number.
import { createHash } from 'node:crypto'
import { LIMITS } from './versions.ts'

/** Longer ones are compared by a hash: V8 hashes very long strings by their length alone. UTF-16 units. */
const HASHED_CHARS_MAX = 1024

/** Distinct secret values. Values beyond the limits only set `isOver`. */
export class SecretSet implements Iterable<string> {
  readonly #values = new Map<string, string>()
  #characters = 0

  constructor(values: Iterable<string> = []) {
    for (const one of values) this.add(one)
  }

  get size(): number {
    return this.#values.size
  }

  /** Whether a limit is exceeded. */
  get isOver(): boolean {
    return (
      this.#values.size > LIMITS.secretValuesMax || this.#characters > LIMITS.secretsCharactersMax
    )
  }

  /** Adds a value, of one over `secretCharactersMax` as much as shows that it is. */
  add(value: string): void {
    if (this.isOver) return
    const part = knownPart(value)
    const key =
      part.length <= HASHED_CHARS_MAX ? part : createHash('sha256').update(part).digest('base64')
    if (this.#values.has(key)) return
    this.#values.set(key, part)
    this.#characters += part.length
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#values.values()
  }
}

function knownPart(secret: string): string {
  const max = LIMITS.secretCharactersMax
  // A copy: a slice would keep all of it in memory.
  return secret.length <= max
    ? secret
    : Buffer.from(secret.slice(0, max + 1), 'utf16le').toString('utf16le')
}

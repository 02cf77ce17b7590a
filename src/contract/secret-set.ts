// Set of distinct secret values of any length, bounded in number and in characters.
import { createHash } from 'node:crypto'
import { LIMITS } from './versions.ts'

/** Longer ones are compared by a hash: V8 hashes very long strings by their length alone. UTF-16 units. */
const HASHED_CHARS_MAX = 1024

/** Limits of a set: its values, and their characters together. */
export interface SecretBounds {
  valuesMax: number
  charactersMax: number
}

/** Limits where no user code runs. */
export const DEFAULT_BOUNDS: SecretBounds = {
  valuesMax: LIMITS.secretValuesMax,
  charactersMax: LIMITS.secretsCharactersMax,
}

/** Limits of a run of user code, which may receive new cookies with thousands of answers. */
export const USER_CODE_BOUNDS: SecretBounds = {
  valuesMax: LIMITS.userCodeSecretValuesMax,
  charactersMax: LIMITS.userCodeSecretsCharactersMax,
}

/** Distinct secret values. Values beyond the limits only set `isOver`. */
export class SecretSet implements Iterable<string> {
  readonly bounds: SecretBounds
  readonly #keys = new Set<string>()
  readonly #values: string[] = []
  #characters = 0

  constructor(values: Iterable<string> = [], bounds = DEFAULT_BOUNDS) {
    this.bounds = bounds
    for (const one of values) this.add(one)
  }

  get size(): number {
    return this.#values.length
  }

  /** Whether a limit is exceeded. */
  get isOver(): boolean {
    const { valuesMax, charactersMax } = this.bounds
    return this.#values.length > valuesMax || this.#characters > charactersMax
  }

  /** Adds a value, of one over `secretCharactersMax` as much as shows that it is. */
  add(value: string): void {
    if (this.isOver) return
    const part = knownPart(value)
    const key =
      part.length <= HASHED_CHARS_MAX ? part : createHash('sha256').update(part).digest('base64')
    if (this.#keys.has(key)) return
    this.#keys.add(key)
    this.#values.push(part)
    this.#characters += part.length
  }

  [Symbol.iterator](): Iterator<string> {
    return this.#values.values()
  }

  /** The values from the one at a position on, in the order in which they were added. */
  from(position: number): string[] {
    return this.#values.slice(position)
  }
}

function knownPart(secret: string): string {
  const max = LIMITS.secretCharactersMax
  // A copy: a slice would keep all of it in memory.
  return secret.length <= max
    ? secret
    : Buffer.from(secret.slice(0, max + 1), 'utf16le').toString('utf16le')
}

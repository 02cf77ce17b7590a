// Byte scrubber: removes secrets from a stream of bytes in constant memory: secret values in their usual encodings, and the
// values of sensitive names in JSON, in lists of headers and in lines like `authorization: …`. Secrets that span
// two chunks are found too.
import { echoedSecrets, NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { USER_CODE_BOUNDS } from '../../contract/secret-set.ts'
import { FILE_MARKS, partSpans } from './cut-parts.ts'
import { type NamedValue, namedValues } from './named-values.ts'
import { SCRUBBED, urlCredentials } from './scrub.ts'
import { type Finder, joined, SecretFinder, type Span } from './secret-finder.ts'

export interface ByteRules {
  isSensitive(name: string): boolean
  finder: Finder
  /** Longer than the longest match. */
  overlapBytes: number
  /** How far from an ellipsis a part of a secret may reach. */
  partBytes: number
}

/** A character of JSON three deep has up to 8 bytes. */
const OVERLAP_BYTES_MIN = 8 * NAMED_VALUE_CHARS_MAX
/** Bytes share digits with those before them, in each encoding around another. */
const CONTEXT_BYTES = 256
/** The longest encoding of one byte: percent-encoded twice in escaped JSON. */
const SPELLING_BYTES_MAX = 16

/** Makes the rules for some secrets. Throws TooManySecrets. */
export function byteRules(
  secrets: Iterable<string>,
  isSensitive: (name: string) => boolean,
): ByteRules {
  const finder = new SecretFinder(secrets, USER_CODE_BOUNDS)
  const partBytes = finder.longest * SPELLING_BYTES_MAX
  const overlapBytes = Math.max(OVERLAP_BYTES_MIN, partBytes)
  return { isSensitive, finder, overlapBytes, partBytes }
}

/** Listener for what is found. */
export interface ScrubberListener {
  /** Receives further secrets: those in values of sensitive names. */
  onSecret?: ((value: string) => void) | undefined
  /** Called when something was removed. */
  onTouch?: (() => void) | undefined
}

/** Scrubs one stream of bytes, chunk by chunk. */
export class ByteScrubber {
  readonly #rules: ByteRules
  readonly #listener: ScrubberListener
  // Begins with the end of a line, so that the first one is found like the others.
  #pending = '\n'
  /** Length of the pending text that was emitted already; it is context for decoding. */
  #emitted = 1
  #isClosed = false

  constructor(rules: ByteRules, listener: ScrubberListener = {}) {
    this.#rules = rules
    this.#listener = listener
  }

  /** Accepts the next chunk; returns the bytes that are final. */
  write(piece: Buffer): Buffer {
    if (this.#isClosed) return Buffer.alloc(0)
    this.#pending += piece.toString('latin1')
    const { overlapBytes } = this.#rules
    return this.#pending.length <= 2 * overlapBytes
      ? Buffer.alloc(0)
      : this.#give(this.#pending.length - overlapBytes)
  }

  end(): Buffer {
    return this.#give(this.#pending.length)
  }

  #give(until: number): Buffer {
    if (this.#isClosed) return Buffer.alloc(0)
    try {
      return this.#scrubbed(until)
    } catch {
      return this.#close()
    }
  }

  /** Emits nothing more of a stream in which secrets cannot be found. */
  #close(): Buffer {
    this.#isClosed = true
    this.#pending = ''
    this.#listener.onTouch?.()
    return Buffer.from(SCRUBBED)
  }

  #scrubbed(until: number): Buffer {
    const text = this.#pending
    let clean = ''
    let at = this.#emitted
    for (const span of joined(this.#spans(text, until))) {
      if (span.to <= at) continue
      const { from, to, by } = replacement(text, span, at)
      clean += text.slice(at, Math.max(at, from)) + by
      at = to
      this.#listener.onTouch?.()
    }
    // A value of unknown end extends to the end of the stream.
    if (at === Infinity) this.#isClosed = true
    const end = Math.max(at, until)
    clean += text.slice(at, end)
    const contextFrom = Math.max(0, end - CONTEXT_BYTES)
    this.#pending = text.slice(contextFrom)
    this.#emitted = end - contextFrom
    return Buffer.from(clean, 'latin1')
  }

  /** Spans to remove that begin before `until`. */
  *#spans(text: string, until: number): Generator<Span> {
    const { finder, partBytes } = this.#rules
    const bytes = Buffer.from(text, 'latin1')
    for (const span of finder.spans(bytes)) if (span.from < until) yield span
    const parts = partSpans(finder, bytes, text, { marks: FILE_MARKS, reach: partBytes })
    for (const span of parts) if (span.from < until) yield span
    for (const span of urlCredentials(text)) if (span.from < until) yield span
    for (const one of namedValues(text, until)) yield* this.#span(one)
  }

  *#span({ name, value, isLiteral, from, to }: NamedValue): Generator<Span> {
    if (value === SCRUBBED || !this.#rules.isSensitive(name)) return
    const { onSecret } = this.#listener
    if (onSecret !== undefined && !isLiteral)
      for (const one of echoedSecrets(readable(value))) onSecret(one)
    yield { from, to }
  }
}

/** A span, and the text in its place. */
interface Replacement extends Span {
  by: string
}

/**
 * How a span is replaced: values of JSON, and a number that it is a part of, become `null`, so that the file stays JSON.
 * A text in quotes keeps these.
 */
function replacement(text: string, { from, to }: Span, notBefore: number): Replacement {
  let [start, end] = [from, to]
  const first = Math.max(notBefore, from - NEAR_CHARS)
  if (isOfNumber(text, from)) while (start > first && isOfNumber(text, start - 1)) start--
  if (isOfNumber(text, to - 1)) while (end < to + NEAR_CHARS && isOfNumber(text, end)) end++
  const isJson =
    BEFORE_VALUE.test(text.slice(Math.max(0, start - NEAR_CHARS), start)) &&
    AFTER_VALUE.test(text.slice(end, end + NEAR_CHARS)) &&
    jsonOf(`[${text.slice(start, end)}]`) !== undefined
  return isJson ? { from: start, to: end, by: 'null' } : { from, to, by: SCRUBBED }
}

const isOfNumber = (text: string, at: number) => /[\d.eE+-]/.test(text.charAt(at))

/** How far before and after a span is looked for what shows that it is a value of JSON. */
const NEAR_CHARS = 64
const BEFORE_VALUE = /(?:"\s{0,16}:|[[,])\s{0,63}$/
const AFTER_VALUE = /^\s*[,}\]]/

/** The value as it was before it was put into JSON, quotes and bytes. */
function readable(value: string): string {
  const text = Buffer.from(value, 'latin1').toString()
  const plain = (jsonOf(`"${text}"`) as string | undefined) ?? text
  return plain.replace(/^"(.*)"$/, '$1')
}

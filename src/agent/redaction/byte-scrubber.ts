// Takes secrets out of a stream of bytes, whatever is in it, in memory that does not grow with it: secret
// values in every spelling, and the values of sensitive names in JSON, in lists of headers and in lines like
// `authorization: …`. What is cut by the end of a piece is found all the same.
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import { echoedSecrets, type Finder, SCRUBBED } from './scrub.ts'
import { joined, SecretFinder, type Span } from './secret-finder.ts'

/** What is looked for. */
export interface ByteRules {
  isSensitive(name: string): boolean
  finder: Finder
  /** Longer than the longest thing that is looked for. */
  overlapBytes: number
}

const OVERLAP_BYTES_MIN = 4 * NAMED_VALUE_CHARS_MAX
/** Bytes share digits with those before them, in each encoding around another. */
const CONTEXT_BYTES = 256
/** The longest spelling of one byte: percent-encoded twice inside of escaped JSON. */
const SPELLING_BYTES_MAX = 16

/** Makes the rules for some secrets. Throws TooManySecrets. */
export function byteRules(
  secrets: Iterable<string>,
  isSensitive: (name: string) => boolean,
): ByteRules {
  const finder = new SecretFinder(secrets)
  const overlapBytes = Math.max(OVERLAP_BYTES_MIN, finder.longest * SPELLING_BYTES_MAX)
  return { isSensitive, finder, overlapBytes }
}

/** A character in a text of JSON, in one of JSON inside of JSON, and in a line. */
const CHARACTER = '(?:[^"\\\\]|\\\\.)'
const QUOTED_CHARACTER = '(?:[^"\\\\]|\\\\[^"\\\\]|\\\\\\\\(?:\\\\["\\\\]|[^"\\\\]))'
const LINE_CHARACTER = '[^\\r\\n\\\\"<]'
const NAMED = '(?:name|key|header)'

/**
 * The name is the first group, the value the second, and the third is not empty where the value goes on. Such a value
 * takes the rest of the text along.
 */
const shape = (before: string, character: string) =>
  new RegExp(`${before}(${character}{1,${NAMED_VALUE_CHARS_MAX}})(${character}?)`, 'g')

const SHAPES: readonly { pattern: RegExp; mayBeSource?: true }[] = [
  { pattern: shape('"([\\w.-]{2,100})"\\s*:\\s*"', CHARACTER) },
  { pattern: shape('\\\\"([\\w.-]{2,100})\\\\"\\s*:\\s*\\\\"', QUOTED_CHARACTER) },
  {
    pattern: shape(`"${NAMED}"\\s*:\\s*"([\\w.-]{2,100})"\\s*,\\s*"value"\\s*:\\s*"`, CHARACTER),
  },
  {
    pattern: shape(
      `\\\\"${NAMED}\\\\"\\s*:\\s*\\\\"([\\w.-]{2,100})\\\\"\\s*,\\s*\\\\"value\\\\"\\s*:\\s*\\\\"`,
      QUOTED_CHARACTER,
    ),
  },
  // A line of a call log, of raw HTTP, or of a text inside of JSON.
  {
    pattern: shape(
      '(?:[\\r\\n]|\\\\n)[^A-Za-z0-9\\r\\n"]{0,40}([A-Za-z][\\w-]{1,99}):[ \\t]*',
      LINE_CHARACTER,
    ),
    mayBeSource: true,
  },
]

/** `"value": …, "name": …`: the other way round. */
const VALUE_FIRST = new RegExp(
  `"value"\\s*:\\s*"(${CHARACTER}{1,${NAMED_VALUE_CHARS_MAX}})"\\s*,\\s*"${NAMED}"\\s*:\\s*"([\\w.-]{2,100})"`,
  'g',
)

/**
 * No value of a header: traces hold the sources of tests, with lines like `token: process.env.TOKEN,` and
 * `token: async ({ page }, use) => {`. Strict, since a secret that looked like one would stay.
 */
const SOURCE = /^process\.env\b[\w.[\]'"]*[,;]?$|^[[({]+$|\) => [[({]?$/

/** A value beside its name. */
export interface NamedValue extends Span {
  name: string
  value: string
}

/** Texts in UTF-16 of either order of bytes, as far as there are headers in them: every second byte is 0. */
const UTF16 = /(?:[^\0]\0){8,}[^\0]?/g

/** What has a name in the text and begins before `until`, whatever the name is; bytes may be of UTF-16. */
export function* namedValues(text: string, until: number): Generator<NamedValue> {
  yield* namedInBytes(text, until)
  if (!text.includes('\0')) return
  for (const { 0: run, index } of text.matchAll(UTF16)) {
    if (index >= until) break
    // Begins with the end of a line, as it may be the beginning of a text.
    const inner = `\n${run.replaceAll('\0', '')}`
    for (const { name, value, from, to } of namedInBytes(inner, inner.length)) {
      const [start, end] = [index + 2 * (from - 1), index + 2 * (to - 1)]
      if (start < until) yield { name, value, from: start, to: Math.min(end, index + run.length) }
    }
  }
}

function* namedInBytes(text: string, until: number): Generator<NamedValue> {
  for (const { pattern, mayBeSource = false } of SHAPES) {
    for (const match of text.matchAll(pattern)) {
      if (match.index >= until) break
      const [whole, name = '', value = '', more = ''] = match
      if (mayBeSource && SOURCE.test(value)) continue
      const to = match.index + whole.length - more.length
      yield { name, value, from: to - value.length, to: more === '' ? to : Infinity }
    }
  }
  for (const match of text.matchAll(VALUE_FIRST)) {
    if (match.index >= until) break
    const [whole, value = '', name = ''] = match
    const from = match.index + whole.indexOf(`"${value}"`, 7) + 1
    yield { name, value, from, to: from + value.length }
  }
}

/** Who hears of what is found. */
export interface ScrubberHears {
  /** Told what else must not be seen: the secrets in values of sensitive names. */
  onSecret?: ((value: string) => void) | undefined
  /** Called when something had to go. */
  onTouch?: (() => void) | undefined
}

/** Scrubs one stream of bytes, piece by piece. */
export class ByteScrubber {
  readonly #rules: ByteRules
  readonly #hears: ScrubberHears
  // Begins with the end of a line, so that the first one is found like the others.
  #held = '\n'
  /** So much of what is held was given already: without it, what is encoded could not be decoded. */
  #given = 1
  #isClosed = false

  constructor(rules: ByteRules, hears: ScrubberHears = {}) {
    this.#rules = rules
    this.#hears = hears
  }

  /** Takes the next piece; gives what is certain by now. */
  write(piece: Buffer): Buffer {
    if (this.#isClosed) return Buffer.alloc(0)
    this.#held += piece.toString('latin1')
    const { overlapBytes } = this.#rules
    return this.#held.length <= 2 * overlapBytes
      ? Buffer.alloc(0)
      : this.#give(this.#held.length - overlapBytes)
  }

  /** Gives the rest. */
  end(): Buffer {
    return this.#give(this.#held.length)
  }

  #give(until: number): Buffer {
    if (this.#isClosed) return Buffer.alloc(0)
    try {
      return this.#scrubbed(until)
    } catch {
      return this.#close()
    }
  }

  /** Nothing more is given of a stream in which secrets cannot be found. */
  #close(): Buffer {
    this.#isClosed = true
    this.#held = ''
    this.#hears.onTouch?.()
    return Buffer.from(SCRUBBED)
  }

  #scrubbed(until: number): Buffer {
    const text = this.#held
    let clean = ''
    let at = this.#given
    for (const { from, to } of joined(this.#spans(text, until))) {
      if (to <= at) continue
      clean += text.slice(at, Math.max(at, from)) + SCRUBBED
      at = to
      this.#hears.onTouch?.()
    }
    // What is too long to be known to its end takes the rest of the stream along.
    if (at === Infinity) this.#isClosed = true
    const end = Math.max(at, until)
    clean += text.slice(at, end)
    const kept = Math.max(0, end - CONTEXT_BYTES)
    this.#held = text.slice(kept)
    this.#given = end - kept
    return Buffer.from(clean, 'latin1')
  }

  /** What must go and begins before `until`. */
  *#spans(text: string, until: number): Generator<Span> {
    for (const span of this.#rules.finder.spans(Buffer.from(text, 'latin1'))) {
      if (span.from < until) yield span
    }
    for (const one of namedValues(text, until)) yield* this.#span(one)
  }

  *#span({ name, value, from, to }: NamedValue): Generator<Span> {
    if (value === SCRUBBED || !this.#rules.isSensitive(name)) return
    const { onSecret } = this.#hears
    if (onSecret !== undefined) for (const one of echoedSecrets(readable(value))) onSecret(one)
    yield { from, to }
  }
}

/** The value as it was before it was put into JSON and bytes. */
function readable(value: string): string {
  const text = Buffer.from(value, 'latin1').toString()
  try {
    return JSON.parse(`"${text}"`) as string
  } catch {
    return text
  }
}

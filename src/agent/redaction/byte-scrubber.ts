// Byte scrubber: removes secrets from a stream of bytes in constant memory: secret values in their usual encodings, and the
// values of sensitive names in JSON, in lists of headers and in lines like `authorization: …`. Secrets that span
// two chunks are found too.
import { echoedSecrets, NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { USER_CODE_BOUNDS } from '../../contract/secret-set.ts'
import { FILE_MARKS, partSpans } from './cut-parts.ts'
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

const OVERLAP_BYTES_MIN = 4 * NAMED_VALUE_CHARS_MAX
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

/** A character in a JSON string. */
const CHARACTER = String.raw`(?:[^"\\]|\\.)`
/** A quote and a character in JSON, in JSON in a text of JSON, and in JSON in that one: escapes of so many backslashes. */
const LEVELS = [
  { quote: '"', quoteLength: 1, character: CHARACTER },
  ...[2, 4].map((count) => {
    const quote = String.raw`\\{${count - 1}}"`
    const escaped = String.raw`\\{${count}}(?:${quote}|\\{${count}}|[^"\\])`
    const character = String.raw`(?:[^"\\]|\\[^"\\]|${escaped})`
    return { quote, quoteLength: count, character }
  }),
]
/** What stands in front of the value in a line. */
const LINE = '[^A-Za-z0-9\\r\\n"]{0,40}([A-Za-z][\\w-]{1,99}):[ \\t]*'
const NAMED = '(?:name|key|header)'

/**
 * The name is the first group, the value the second; the third is not empty where the value continues. Such a value
 * extends to the end of the text.
 */
const shape = (before: string, character: string) =>
  new RegExp(`${before}(${character}{1,${NAMED_VALUE_CHARS_MAX}})(${character}?)`, 'g')

/** What stands between name and value of a printed object: colours of a terminal, too. */
const PRINTED_GAP = '(?:[ \\t\\r\\n]|\\\\n|(?:\\x1B|\\\\u001[bB])\\[[\\d;]{0,20}m){0,40}'
const PRINTED_COLON = `(?::|=>)${PRINTED_GAP}'(?![,\\]}])`
/** The text around it may be JSON, which it does not end. */
const PRINTED_CHARACTER = `(?:[^'"\\\\\\r\\n]|\\\\.)`

const SHAPES: readonly { pattern: RegExp; mayBeSource?: true; isLiteral?: true }[] = [
  ...LEVELS.flatMap(({ quote: q, character }) => [
    { pattern: shape(`${q}([\\w.-]{2,100})${q}\\s*:\\s*${q}`, character) },
    {
      pattern: shape(
        `${q}${NAMED}${q}\\s*:\\s*${q}([\\w.-]{2,100})${q}\\s*,\\s*${q}value${q}\\s*:\\s*${q}`,
        character,
      ),
    },
  ]),
  // A parameter of a URL, also in its fragment, or of a form, and a setting in a line. No template of a source.
  {
    pattern: shape(
      String.raw`(?:[?&#\r\n]|&amp;|\\u0026)([\w.-]{2,100})=(?![{$])`,
      String.raw`[^&#,;\s"'\x60<>\\]`,
    ),
  },
  // A field of a form of several parts (RFC 7578).
  { pattern: shape(String.raw`; name="([\w.-]{2,100})"\r\n\r\n`, String.raw`[^\r\n]`) },
  // A line of a call log, of raw HTTP, in quotes, and of a text in JSON.
  { pattern: shape(`[\\r\\n]${LINE}(?![ \\t"])`, '[^\\r\\n<]'), mayBeSource: true },
  { pattern: shape(`[\\r\\n]${LINE}"(?![ \\t"])`, '[^\\r\\n\\\\"<]'), mayBeSource: true },
  {
    pattern: shape(`\\\\n${LINE}(?![ \\t])`, '(?:[^\\r\\n\\\\"<]|\\\\")'),
    mayBeSource: true,
  },
  // As Node.js prints objects, `'x-api-key' => 'abc'` and `access_token: 'abc'`, also in a text of JSON.
  {
    pattern: shape(`'([\\w.-]{2,100})'${PRINTED_GAP}${PRINTED_COLON}`, PRINTED_CHARACTER),
    isLiteral: true,
  },
  {
    // Begins with the colon, which few words are followed by.
    pattern: shape(
      `${PRINTED_COLON}(?<=(?<![\\w.$"'\`-])([A-Za-z_]\\w{1,99})${PRINTED_GAP}${PRINTED_COLON})`,
      PRINTED_CHARACTER,
    ),
    isLiteral: true,
  },
]

/** `"value": …, "name": …`: the other way round. */
const VALUE_FIRST = new RegExp(
  `"value"\\s*:\\s*"(${CHARACTER}{1,${NAMED_VALUE_CHARS_MAX}})"\\s*,\\s*"${NAMED}"\\s*:\\s*"([\\w.-]{2,100})"`,
  'g',
)

/**
 * `"set-cookie": ["…", "…"]`, as Go and Bun write headers: what begins such a list, and a value of it. Under names that
 * only fields have, such as `password`, lists hold messages.
 */
const HEADER = '(authorization|cookie|\\w{1,100}-[\\w.-]{1,100})'
const LISTS = LEVELS.map(({ quote, quoteLength, character }) => ({
  begin: new RegExp(`${quote}${HEADER}${quote}\\s*:\\s*\\[(?=\\s*${quote})`, 'gi'),
  item: new RegExp(`(?:\\s*,)?\\s*${quote}(${character}{1,${NAMED_VALUE_CHARS_MAX}})${quote}`, 'y'),
  quoteLength,
}))

/**
 * No value of a header: traces hold the sources of tests, with lines like `token: process.env.TOKEN,` and
 * `token: async ({ page }, use) => {`. Strict, since a secret that looked like one would stay.
 */
const SOURCE = /^process\.env\b[\w.[\]'"]*[,;]?$|^[[({]+$|\) => [[({]?$/

export interface NamedValue extends Span {
  name: string
  value: string
  /** It may be any text of a program, which is no secret where it stands elsewhere. */
  isLiteral: boolean
}

/** Named values in the text that begin before `until`, whatever the name is. */
export function* namedValues(text: string, until: number): Generator<NamedValue> {
  for (const { pattern, mayBeSource = false, isLiteral = false } of SHAPES) {
    for (const match of text.matchAll(pattern)) {
      if (match.index >= until) break
      const [whole, name = '', value = '', more = ''] = match
      if (mayBeSource && SOURCE.test(value)) continue
      const to = match.index + whole.length - more.length
      yield { name, value, isLiteral, from: to - value.length, to: more === '' ? to : Infinity }
    }
  }
  for (const { begin, item, quoteLength } of LISTS) {
    for (const { 0: whole, 1: name = '', index } of text.matchAll(begin)) {
      if (index >= until) break
      item.lastIndex = index + whole.length
      for (let match = item.exec(text); match !== null; match = item.exec(text)) {
        const [, value = ''] = match
        const to = match.index + match[0].length - quoteLength
        yield { name, value, isLiteral: false, from: to - value.length, to }
      }
    }
  }
  for (const match of text.matchAll(VALUE_FIRST)) {
    if (match.index >= until) break
    const [whole, value = '', name = ''] = match
    const from = match.index + whole.indexOf(`"${value}"`, 7) + 1
    yield { name, value, isLiteral: false, from, to: from + value.length }
  }
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

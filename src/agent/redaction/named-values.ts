// Finds values next to their names in texts and files: in JSON, in lists of headers, in lines like `authorization: …`, in
// URLs and forms, and in objects as a console prints them. Whether a name is sensitive is decided elsewhere.
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import type { Span } from './secret-finder.ts'

export interface NamedValue extends Span {
  name: string
  value: string
  /** It may be any text of a program, so it is no secret where it stands elsewhere. */
  isLiteral: boolean
}

/** JSON nested one, two and three deep: how a quote and a character of a string are written. Other escapes may be mixed in. */
const LEVELS = [1, 2, 4].map((count) => ({
  quote: String.raw`\\{${count - 1}}"`,
  quoteLength: count,
  character: String.raw`(?:[^"\\]|\\{1,${2 * count - 1}}[^"\\]|\\{${2 * count - 1}}"|\\{${2 * count}})`,
}))
/** What stands in front of the value in a line. */
const LINE = '[^A-Za-z0-9\\r\\n"]{0,40}([A-Za-z][\\w-]{1,99}):[ \\t]*'
const NAMED = '(?:name|key|header)'

/**
 * The name is the first group, the value the second; the third is not empty where the value continues. Such a value
 * extends to the end of the text.
 */
const shape = (before: string, character: string) =>
  new RegExp(`${before}(${character}{1,${NAMED_VALUE_CHARS_MAX}})(${character}?)`, 'g')

/** In a URL or a form; punctuation behind it belongs to the text around. A template of a source is none. */
const PARAMETER = String.raw`([\w.-]{2,100})=(?!\$\{|\{\{)`
const PARAMETER_CHARACTER = String.raw`(?:[^&#,;\s"'\x60<>\\]|[,;](?=[^&#,;\s"'\x60<>\\])|\\/)`
/** Shorter ones are searched only where they stand: `?credentials=include`. */
const PARAMETER_SECRET_CHARS_MIN = 16

/** An end of a line, also in a text of JSON. */
const END = String.raw`(?:\r\n|\\r\\n)`

/** What stands between name and value of a printed object: colours of a terminal, too. */
const PRINTED_GAP = '(?:[ \\t\\r\\n]|\\\\n|(?:\\x1B|\\\\u001[bB])\\[[\\d;]{0,20}m){0,40}'
const PRINTED_COLON = `(?::|=>)${PRINTED_GAP}'(?![,\\]}])`
/** The text around it may be JSON, which it does not end. */
const PRINTED_CHARACTER = `(?:[^'"\\\\\\r\\n]|\\\\.)`

interface Shape {
  pattern: RegExp
  /** It may be source, which is no value. */
  mayBeSource?: true
  /** Shorter values are literals. */
  secretCharsMin?: number
}

const SHAPES: readonly Shape[] = [
  ...LEVELS.flatMap(({ quote: q, character }) => [
    { pattern: shape(`${q}([\\w.-]{2,100})${q}\\s*:\\s*${q}`, character) },
    {
      pattern: shape(
        `${q}${NAMED}${q}\\s*:\\s*${q}([\\w.-]{2,100})${q}\\s*,\\s*${q}value${q}\\s*:\\s*${q}`,
        character,
      ),
    },
  ]),
  // A parameter of a URL, also in its fragment, or of a form; the first one of a form in a line.
  {
    pattern: shape(String.raw`(?:[?&#"]|&amp;|\\u0026)${PARAMETER}`, PARAMETER_CHARACTER),
    secretCharsMin: PARAMETER_SECRET_CHARS_MIN,
  },
  {
    pattern: shape(
      String.raw`[\r\n]${PARAMETER}(?=[^&\s]{1,${NAMED_VALUE_CHARS_MAX}}&[\w.-]{2,100}=)`,
      PARAMETER_CHARACTER,
    ),
    secretCharsMin: PARAMETER_SECRET_CHARS_MIN,
  },
  // A field of a form of several parts (RFC 7578).
  {
    pattern: shape(
      String.raw`; name=\\?"([\w.-]{2,100})\\?"(?:${END}[^\r\n\\]{1,200})?${END}${END}`,
      String.raw`[^\r\n\\"]`,
    ),
    secretCharsMin: PARAMETER_SECRET_CHARS_MIN,
  },
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
    secretCharsMin: Infinity,
  },
  {
    // Begins with the colon: to look at each word first takes ten times as long.
    pattern: shape(
      `${PRINTED_COLON}(?<=(?<![\\w.$"'\`-])([A-Za-z_]\\w{1,99})${PRINTED_GAP}${PRINTED_COLON})`,
      PRINTED_CHARACTER,
    ),
    secretCharsMin: Infinity,
  },
]

/** `"value": …, "name": …`: the other way round. */
const VALUE_FIRST = LEVELS.map(
  ({ quote: q, character }) =>
    new RegExp(
      `${q}value${q}\\s*:\\s*${q}(${character}{1,${NAMED_VALUE_CHARS_MAX}})${q}\\s*,\\s*${q}${NAMED}${q}\\s*:\\s*${q}([\\w.-]{2,100})${q}`,
      'dg',
    ),
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

/** Named values in the text that begin before `until`, whatever the name is. */
export function* namedValues(text: string, until: number): Generator<NamedValue> {
  for (const { pattern, mayBeSource = false, secretCharsMin = 0 } of SHAPES) {
    for (const match of text.matchAll(pattern)) {
      if (match.index >= until) break
      const [whole, name = '', value = '', more = ''] = match
      if (mayBeSource && SOURCE.test(value)) continue
      const to = match.index + whole.length - more.length
      const isLiteral = value.length < secretCharsMin
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
  for (const pattern of VALUE_FIRST) {
    for (const { index, indices, 1: value = '', 2: name = '' } of text.matchAll(pattern)) {
      if (index >= until) break
      const [from, to] = indices?.[1] ?? [index, index]
      yield { name, value, isLiteral: false, from, to }
    }
  }
}

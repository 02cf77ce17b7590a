// Takes the values of sensitive names out of what people's programs write: a console, an error, the piece of
// source beside it. What is a header is known there by its name alone.
import { NAMED_VALUE_CHARS_MAX } from '../../contract/definition-secrets.ts'
import { SecretSet } from '../../contract/secret-set.ts'
import { namedValues } from '../redaction/byte-scrubber.ts'
import {
  createScrubber,
  echoedSecrets,
  SCRUBBED,
  type Scrubber,
  withTexts,
} from '../redaction/scrub.ts'
import { joined, type Span } from '../redaction/secret-finder.ts'

const COLOUR = String.raw`\u001B\[[\d;]*m`
const GAP = String.raw`(?:[ \t\r\n]|${COLOUR}){0,40}`
const NAME = String.raw`(?:(["'\`])([\w.-]{2,100})\1|(?<![\w.$\\"'\`-])([A-Za-z_][\w-]{1,99}))`
const VALUE = String.raw`(["'\`])((?:(?!\4)[^\\\r\n]|\\.){1,${NAMED_VALUE_CHARS_MAX}})`

/** As programs and their consoles write it; what was cut has no end: `'x-api-key': 'abc'`, `cookie => "a…`. */
const QUOTED = new RegExp(`${NAME}${GAP}(?::|=>)${GAP}${VALUE}`, 'g')

/** `[ 'authorization', 'Bearer …' ]`. */
const PAIR = new RegExp(
  String.raw`\[\s{0,40}(["'])([\w.-]{2,100})\1\s{0,40},\s{0,40}(["'])((?:(?!\3)[^\\\r\n]|\\.){1,${NAMED_VALUE_CHARS_MAX}})\3\s{0,40}\]`,
  'g',
)

/** `{ name: 'cookie', value: 'a=b' }`. */
const LISTED = new RegExp(
  String.raw`\b(?:name|key|header)["']?:\s{0,40}(["'])([\w.-]{2,100})\1\s{0,40},\s{0,40}["']?value["']?:\s{0,40}(["'])((?:(?!\3)[^\\\r\n]|\\.){1,${NAMED_VALUE_CHARS_MAX}})`,
  'g',
)

/** Looks for sensitive names in texts of one run, and remembers what they held. */
export class NamedTexts {
  readonly #names: Pick<Scrubber, 'isSensitive'>
  /** What was seen, and may stand anywhere else without its name. */
  readonly #seen = new SecretSet()
  /** For the values up to a number of them, and for those after it: few are made anew when one is added. */
  #older: { of: number; scrubber: Scrubber } | undefined
  #newer: { of: number; scrubber: Scrubber } | undefined

  constructor(names: Pick<Scrubber, 'isSensitive'>) {
    this.#names = names
  }

  /** The text without what is named in it. */
  text(given: string): string {
    // Begins with the end of a line, so that the first one is found like the others.
    const text = `\n${given}`
    let clean = ''
    let at = 1
    for (const { from, to } of joined(this.#spans(text))) {
      clean += text.slice(at, Math.max(at, from)) + SCRUBBED
      at = to
    }
    return at === 1 ? given : clean + text.slice(at)
  }

  /** The value without what is named in its texts. */
  value<T>(value: T): T {
    return withTexts(value, (text) => this.text(text))
  }

  /** Adds what others have seen. */
  saw(values: readonly string[]): void {
    for (const one of values) this.#seen.add(one)
  }

  /** Adds what a header held that the program sent or got, if it is a sensitive one. */
  sawHeader(name: string, value: string): void {
    if (value !== SCRUBBED && this.#names.isSensitive(name)) this.saw(echoedSecrets(value))
  }

  /** What was seen. */
  secrets(): string[] {
    return [...this.#seen]
  }

  /** Takes out what was seen, wherever it stands; undefined where nothing was. */
  seen(): Scrubber | undefined {
    const of = this.#seen.size
    if (of === 0) return undefined
    if (this.#older === undefined || of > 2 * this.#older.of || this.#seen.isOver) {
      if (this.#older?.of !== of) this.#older = { of, scrubber: this.#scrubberFrom(0) }
    }
    const { of: first, scrubber: older } = this.#older
    if (first === of) return older
    if (this.#newer?.of !== of) this.#newer = { of, scrubber: this.#scrubberFrom(first) }
    const newer = this.#newer.scrubber
    return {
      ...older,
      text: (text) => newer.text(older.text(text)),
      value: (value) => newer.value(older.value(value)),
    }
  }

  #scrubberFrom(first: number): Scrubber {
    const isSensitive = (name: string) => this.#names.isSensitive(name)
    return createScrubber({ secrets: this.secrets().slice(first) }, isSensitive)
  }

  /** The text without what was seen until now. */
  withoutSeen(text: string): string {
    return this.seen()?.text(text) ?? text
  }

  *#spans(text: string): Generator<Span> {
    for (const { name, value, from, to } of namedValues(text, text.length)) {
      if (value === SCRUBBED || !this.#names.isSensitive(name)) continue
      this.saw(echoedSecrets(unescaped(value)))
      yield { from, to }
    }
    // A literal of a program may be any word: it goes where it stands, and nowhere else.
    for (const one of text.matchAll(QUOTED)) {
      yield* this.#literal(one, one[2] ?? one[3], one[5], one[4] === '`')
    }
    for (const pattern of [PAIR, LISTED]) {
      for (const one of text.matchAll(pattern)) yield* this.#literal(one, one[2], one[4])
    }
  }

  *#literal(
    { 0: whole, index }: RegExpExecArray,
    name = '',
    value = '',
    isTemplate = false,
  ): Generator<Span> {
    if (value === SCRUBBED || !this.#names.isSensitive(name)) return
    if (isTemplate && value.includes('${')) return
    const from = index + whole.lastIndexOf(value)
    // One that was not read to its end takes all that follows along.
    yield { from, to: value.length < NAMED_VALUE_CHARS_MAX ? from + value.length : Infinity }
  }
}

function unescaped(value: string): string {
  try {
    return JSON.parse(`"${value}"`) as string
  } catch {
    return value
  }
}

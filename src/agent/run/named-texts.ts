// Scrubs the values of sensitive names out of the output of user code: console, errors, quoted source. A header is
// recognized there by its name alone.
import {
  definitionSecrets,
  echoedSecrets,
  NAMED_VALUE_CHARS_MAX,
} from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { SecretSet } from '../../contract/secret-set.ts'
import { namedValues } from '../redaction/byte-scrubber.ts'
import { createScrubber, SCRUBBED, type Scrubber, withTexts } from '../redaction/scrub.ts'
import { joined, type Span } from '../redaction/secret-finder.ts'
import type { Variable } from '../../contract/monitor.ts'

const COLOUR = String.raw`\u001B\[[\d;]*m`
const GAP = String.raw`(?:[ \t\r\n]|${COLOUR}){0,40}`
const NAME = String.raw`(?:(["'\`])([\w.-]{2,100})\1|(?<![\w.$\\"'\`-])([A-Za-z_][\w-]{1,99}))`
const VALUE = String.raw`(["'\`])((?:(?!\4)[^\\\r\n]|\\.){1,${NAMED_VALUE_CHARS_MAX}})`

/** As programs and consoles print it; truncated values have no end: `'x-api-key': 'abc'`, `cookie => "a…`. */
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

/** Finds sensitive names in the texts of one run, and remembers their values. */
export class NamedTexts {
  readonly #names: Pick<Scrubber, 'isSensitive'>
  /** Observed values, which may stand elsewhere without their names. */
  readonly #observed = new SecretSet()
  /** Scrubbers for the first `of` values and for the later ones, so that adding one rebuilds only the smaller part. */
  #older: { of: number; scrubber: Scrubber } | undefined
  #newer: { of: number; scrubber: Scrubber } | undefined

  constructor(names: Pick<Scrubber, 'isSensitive'>) {
    this.#names = names
  }

  /** The text without the values of sensitive names. */
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

  /** The same for all texts in a value. */
  value<T>(value: T): T {
    return withTexts(value, (text) => this.text(text))
  }

  /** Adds values that were observed elsewhere, unless only punctuation remains of them next to `SCRUBBED`. */
  addValues(values: readonly string[]): void {
    for (const one of values) {
      const rest = one.replaceAll(SCRUBBED, '')
      if (rest === one || /[\p{L}\p{N}]/u.test(rest)) this.#observed.add(one)
    }
  }

  /** Adds the value of a header that the program sent or received, if it is sensitive. */
  addHeader(name: string, value: string): void {
    if (this.#names.isSensitive(name)) this.addValues(echoedSecrets(value))
  }

  /** The observed values. */
  secrets(): string[] {
    return [...this.#observed]
  }

  /** Scrubber of the observed values; undefined where there are none. */
  observedScrubber(): Scrubber | undefined {
    const of = this.#observed.size
    if (of === 0) return undefined
    if (this.#older === undefined || of > 2 * this.#older.of || this.#observed.isOver) {
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

  /** The text without the values observed until now. */
  withoutObserved(text: string): string {
    return this.observedScrubber()?.text(text) ?? text
  }

  *#spans(text: string): Generator<Span> {
    for (const { name, value, from, to } of namedValues(text, text.length)) {
      if (value === SCRUBBED || !this.#names.isSensitive(name)) continue
      this.addValues(echoedSecrets(unescaped(value)))
      yield { from, to }
    }
    // A literal may be any text, so it is scrubbed only where it stands.
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
    // A truncated value extends to the end of the text.
    yield { from, to: value.length < NAMED_VALUE_CHARS_MAX ? from + value.length : Infinity }
  }
}

function unescaped(value: string): string {
  return (jsonOf(`"${value}"`) as string | undefined) ?? value
}

/**
 * A scrubber for the secrets in what attempts did not disclose: by the names of headers and fields, and the values
 * that secret variables were given. Undefined where there is none.
 */
export function undisclosedScrubber(
  undisclosed: readonly Record<string, unknown>[],
  scrubber: Scrubber,
  variables: readonly Variable[],
): Scrubber | undefined {
  const hidden = new Set(variables.filter((one) => one.secret || one.locked).map((one) => one.key))
  const found = undisclosed.flatMap((one) =>
    definitionSecrets(one, (name) => hidden.has(name) || scrubber.isSensitive(name)),
  )
  return found.length === 0
    ? undefined
    : createScrubber({ secrets: found }, (name) => scrubber.isSensitive(name))
}

// Scrubs the values of sensitive names out of the output of user code: console, errors, quoted source. A header is
// recognized there by its name alone.
import {
  definitionSecrets,
  echoedSecrets,
  NAMED_VALUE_CHARS_MAX,
} from '../../contract/definition-secrets.ts'
import { jsonOf } from '../../contract/exact-json.ts'
import { SecretSet, USER_CODE_BOUNDS } from '../../contract/secret-set.ts'
import { type NamedValue, namedValues } from '../redaction/named-values.ts'
import { SCRUBBED, type Scrubber, withTexts } from '../redaction/scrub.ts'
import { joined, type Span } from '../redaction/secret-finder.ts'
import type { Variable } from '../../contract/monitor.ts'

const COLOUR = String.raw`\u001B\[[\d;]*m`
const GAP = String.raw`(?:[ \t\r\n]|${COLOUR}){0,40}`
const NAME = String.raw`(?:(["'\`])([\w.-]{2,100})\1|(?<![\w.$\\"'\`-])([A-Za-z_][\w-]{1,99}))`
// The quote may also be the end of a text that ends with a name: `["Password:","b"]`.
const VALUE = String.raw`(["'\`])(?![,\]}])((?:(?!\4)[^\\\r\n]|\\.){1,${NAMED_VALUE_CHARS_MAX}})`

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

/** Merging groups to more values in one step would block the event loop for too long. */
const GROUP_VALUES_MAX = 1000

/** Observed values that are searched for together. */
interface Group {
  readonly below?: Group
  /** Number of observed values up to its last one. */
  readonly end: number
  /** For its values and those of the groups below. */
  readonly scrubber: Scrubber
}

/** Finds sensitive names in the texts of one run, and remembers their values. */
export class NamedTexts {
  readonly #known: Scrubber
  /** Observed values, which may stand elsewhere without their names. */
  readonly #observed = new SecretSet([], USER_CODE_BOUNDS)
  #top: Group

  /** `known`: the scrubber of what is secret before the run. */
  constructor(known: Scrubber) {
    this.#known = known
    this.#top = { end: 0, scrubber: known }
  }

  /** The text without known and observed secrets, and without the values of sensitive names in it. */
  text(given: string): string {
    this.#observe(given)
    return this.#withoutNamed(this.scrubber().text(given))
  }

  /** The same for all texts in a value. */
  value<T>(value: T, more: readonly string[] = []): T {
    withTexts(value, (text) => {
      this.#observe(text)
      return text
    })
    const clean = this.scrubber().and(more).value(value)
    return withTexts(clean, (text) => this.#withoutNamed(text))
  }

  /** Adds values that were observed elsewhere. */
  addValues(values: readonly string[]): void {
    for (const one of values) this.#observed.add(one)
  }

  /** There are values that nobody reports: as with more than a run may have, nothing of it is shown. */
  giveUp(): void {
    for (let at = 0; !this.#observed.isOver; at++) this.#observed.add(`unknown value ${at}`)
  }

  /** Adds the value of a header that the program sent or received, if it is sensitive. */
  addHeader(name: string, value: string): void {
    if (this.#known.isSensitive(name)) this.addValues(echoedSecrets(value))
  }

  /** Scrubber of the known and the observed secrets. */
  scrubber(): Scrubber {
    const observed = this.#observed
    const end = observed.size
    let base = this.#top
    if (base.end === end) return base.scrubber
    // With more than there may be, one group has all, so that it removes all texts.
    while (base.below !== undefined && (observed.isOver || isMerged(base, base.below, end))) {
      base = base.below
    }
    const scrubber = base.scrubber.and(observed.from(base.end), USER_CODE_BOUNDS)
    this.#top = { below: base, end, scrubber }
    return scrubber
  }

  /** Adds the values of sensitive headers that stand in a text. */
  #observe(given: string): void {
    for (const { value, isLiteral } of this.#named(asLines(given)))
      if (!isLiteral) this.addValues(echoedSecrets(unescaped(value)))
  }

  #withoutNamed(given: string): string {
    const text = asLines(given)
    let clean = ''
    let at = 1
    for (const { from, to } of joined(this.#spans(text))) {
      clean += text.slice(at, Math.max(at, from)) + SCRUBBED
      at = to
    }
    return at === 1 ? given : clean + text.slice(at)
  }

  *#named(text: string): Generator<NamedValue> {
    for (const one of namedValues(text, text.length))
      if (one.value !== SCRUBBED && this.#known.isSensitive(one.name)) yield one
  }

  *#spans(text: string): Generator<Span> {
    yield* this.#named(text)
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
    if (value === SCRUBBED || !this.#known.isSensitive(name)) return
    if (isTemplate && value.includes('${')) return
    const from = index + whole.lastIndexOf(value)
    // A truncated value extends to the end of the text.
    yield { from, to: value.length < NAMED_VALUE_CHARS_MAX ? from + value.length : Infinity }
  }
}

/**
 * Whether a group is prepared again together with the values after it. Groups grow fourfold, up to GROUP_VALUES_MAX, so
 * that they are few.
 */
function isMerged(group: Group, below: Group, end: number): boolean {
  const size = group.end - below.end
  return size < 4 * (end - group.end) && end - below.end <= GROUP_VALUES_MAX
}

/** Begins with the end of a line, so that the first one is found like the others. */
const asLines = (text: string) => `\n${text}`

function unescaped(value: string): string {
  return (jsonOf(`"${value}"`) as string | undefined) ?? value
}

/** The secrets in what attempts did not disclose: by names, and the values that secret variables were given. */
export function undisclosedSecrets(
  undisclosed: readonly Record<string, unknown>[],
  { isSensitive }: Pick<Scrubber, 'isSensitive'>,
  variables: readonly Variable[],
): string[] {
  if (undisclosed.length === 0) return []
  const hidden = new Set(variables.filter((one) => one.secret || one.locked).map((one) => one.key))
  return undisclosed.flatMap((one) =>
    definitionSecrets(one, (name) => hidden.has(name) || isSensitive(name)),
  )
}

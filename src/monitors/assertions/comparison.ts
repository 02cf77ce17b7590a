// The fourteen comparisons on every kind of value. Pure and without exceptions: a comparison that makes
// no sense for a value does not hold, and each NOT_… is the exact opposite of its twin.
import type { Comparison } from '../../contract/assertion.ts'
import { DECIMAL, differenceOf, parseExactJson, readNumber } from '../../contract/exact-json.ts'
import { isNumeric, isObject, sameJson, type Json } from '../../contract/json-path/json-path.ts'

/** Value of an assertion; `undefined` if there is none. */
export type Actual = Json | undefined

/**
 * Whether the comparison of `actual` with `target` holds.
 * - EQUALS: numbers and texts that are decimal numbers by value (`"200"` equals `200.0`), other texts
 *   character by character, booleans and null by their names, arrays and objects by structure with a
 *   target that is JSON; a missing value equals nothing.
 * - GREATER_THAN, LESS_THAN: only between numbers, or texts that are numbers.
 *   Integers are exact (up to 1,000 digits, see exact-json.ts), in arrays, objects and texts as well. Numbers with
 *   a fraction or an exponent are doubles; only EQUALS between such a text and the target is exact.
 * - CONTAINS: a text has the target within it; an array has an element that EQUALS it; of a number, a
 *   boolean or an object its JSON text counts. Null and missing contain nothing.
 * - HAS_KEY: an object has this member; an array has this index, or an object with this member.
 * - HAS_VALUE: a member or an element EQUALS the target, also in the objects of an array.
 * - IS_EMPTY: `""`, `[]`, `{}`, null and missing. IS_NULL: null and missing.
 */
export function holds(comparison: Comparison, actual: Actual, target: string): boolean {
  return TESTS[comparison](actual, target)
}

type Test = (actual: Actual, target: string) => boolean

const not =
  (test: Test): Test =>
  (actual, target) =>
    !test(actual, target)

const TESTS: Readonly<Record<Comparison, Test>> = {
  EQUALS: equals,
  NOT_EQUALS: not(equals),
  GREATER_THAN: (actual, target) => difference(actual, target) > 0,
  LESS_THAN: (actual, target) => difference(actual, target) < 0,
  CONTAINS: contains,
  NOT_CONTAINS: not(contains),
  HAS_KEY: hasKey,
  NOT_HAS_KEY: not(hasKey),
  HAS_VALUE: hasValue,
  NOT_HAS_VALUE: not(hasValue),
  IS_EMPTY: isEmpty,
  NOT_EMPTY: not(isEmpty),
  IS_NULL: isNull,
  NOT_NULL: not(isNull),
}

function isNull(actual: Actual): boolean {
  return actual === undefined || actual === null
}

function equals(actual: Actual, target: string): boolean {
  if (actual === undefined) return false
  if (typeof actual === 'string' || typeof actual === 'bigint') {
    const text = String(actual)
    if (text === target) return true
    const number = exactNumber(text)
    return number !== undefined && number === exactNumber(target)
  }
  if (typeof actual === 'number') return difference(actual, target) === 0
  if (typeof actual === 'object' && actual !== null) {
    const other = jsonOf(target)
    return other !== undefined && sameJson(actual, other)
  }
  return String(actual) === target.trim()
}

/**
 * The number in a canonical spelling without rounding, for EQUALS: long numbers such as account ids must not
 * become equal because a double holds 15 digits only.
 */
function exactNumber(text: string): string | undefined {
  const found = DECIMAL.exec(text.trim())
  if (found === null) return undefined
  const [, sign = '', whole = '', fraction = '', power = '0'] = found
  const digits = `${whole}${fraction}`.replace(/^0+/, '')
  if (digits === '') return '0'
  const significant = withoutTrailingZeros(digits)
  const exponent = Number(power) - fraction.length + (digits.length - significant.length)
  return `${sign}${significant}e${exponent}`
}

/** By hand: the pattern /0+$/ is quadratic in V8. */
function withoutTrailingZeros(digits: string): string {
  let end = digits.length
  while (digits.charCodeAt(end - 1) === 48) end--
  return digits.slice(0, end)
}

/** As `differenceOf`; NaN where one of them is no number. */
function difference(actual: Actual, target: string): number {
  const left = typeof actual === 'string' ? readNumber(actual) : actual
  const right = readNumber(target)
  return isNumeric(left) && right !== undefined ? differenceOf(left, right) : Number.NaN
}

// The target is compared with each element of a list, and read once.
let lastTarget = ''
let lastJson: Json | undefined

function jsonOf(target: string): Json | undefined {
  if (target === lastTarget) return lastJson
  lastTarget = target
  try {
    lastJson = parseExactJson(target) as Json
  } catch {
    lastJson = undefined
  }
  return lastJson
}

function contains(actual: Actual, target: string): boolean {
  if (actual === undefined || actual === null) return false
  if (typeof actual === 'string') return actual.includes(target)
  if (Array.isArray(actual)) return actual.some((element) => equals(element, target))
  return textOf(actual).includes(target)
}

function hasKey(actual: Actual, target: string): boolean {
  if (!Array.isArray(actual)) return isObject(actual) && Object.hasOwn(actual, target)
  if (/^(0|[1-9][0-9]*)$/.test(target) && Number(target) < actual.length) return true
  return actual.some((element) => isObject(element) && Object.hasOwn(element, target))
}

function hasValue(actual: Actual, target: string): boolean {
  if (Array.isArray(actual)) {
    return actual.some((element) => equals(element, target) || valueWithin(element, target))
  }
  return valueWithin(actual, target)
}

function valueWithin(actual: Actual, target: string): boolean {
  return isObject(actual) && Object.values(actual).some((member) => equals(member, target))
}

function isEmpty(actual: Actual): boolean {
  if (actual === undefined || actual === null || actual === '') return true
  if (Array.isArray(actual)) return actual.length === 0
  return isObject(actual) && Object.keys(actual).length === 0
}

/** Characters of the JSON text of a value that a regex or CONTAINS looks at. */
const TEXT_CHARACTERS_MAX = 1_048_576

/** The text that a value is for a regex: a text itself, else its JSON up to a megabyte. */
export function textOf(actual: Json): string {
  return typeof actual === 'string' ? actual : excerptOf(actual, TEXT_CHARACTERS_MAX)
}

/** The value as JSON, cut at `charactersMax`; costs no more than that, however large the value is. */
export function excerptOf(actual: Actual, charactersMax: number): string {
  let text = ''
  const list = <T>(brackets: string, items: readonly T[], write: (item: T) => void) => {
    text += brackets[0]
    for (const [place, item] of items.entries()) {
      if (text.length > charactersMax) return
      if (place > 0) text += ','
      write(item)
    }
    text += brackets[1]
  }
  const write = (value: Actual): void => {
    if (value === undefined) text += 'nothing'
    else if (typeof value === 'string') text += JSON.stringify(value.slice(0, charactersMax))
    else if (Array.isArray(value)) list('[]', value, write)
    else if (isObject(value)) {
      list('{}', Object.keys(value), (key) => {
        write(key)
        text += ':'
        write(value[key])
      })
    } else text += String(value)
  }
  write(actual)
  return text.length > charactersMax ? `${text.slice(0, charactersMax - 1)}…` : text
}

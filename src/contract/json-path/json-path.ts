// JSONPath as people write it in assertions: RFC 9535, plus a trailing `.length` for arrays and strings.
// Evaluation counts its steps, so that a caller can bound the cost of a user's path.
import { differenceOf } from '../exact-json.ts'
import { JsonPathError, parseJsonPath } from './syntax.ts'
import type { Operand, Operator, Query, Segment, Selector, Test } from './syntax.ts'

/** A document as parseExactJson reads it: an integer beyond 2^53 is a BigInt, which JSON.stringify refuses. */
export type Json = string | number | bigint | boolean | null | Json[] | { [key: string]: Json }

/** A path, read once and used many times. */
export interface JsonPath {
  query: Query
  /** Whether it calls match() or search(), whose time no count of steps bounds. */
  hasRegex: boolean
  /** The query without its trailing `.length`; undefined where it has none. */
  lengthOf: Query | undefined
}

/** Thrown when evaluation needs more steps than it was given. */
export class StepsExceeded extends Error {
  constructor(stepsMax: number) {
    super(`the path needs more than ${stepsMax} steps`)
    this.name = 'StepsExceeded'
  }
}

const COMPILED_MAX = 10_000
const compiled = new Map<string, JsonPath>()

/** Error text of an invalid path with its position (characters from 1), or undefined. */
export function jsonPathProblem(path: string): string | undefined {
  try {
    compileJsonPath(path)
    return undefined
  } catch (error) {
    if (error instanceof JsonPathError) return `not a JSONPath: ${error.message}`
    throw error
  }
}

/** Reads a path, or takes it from what has been read before; throws JsonPathError. */
export function compileJsonPath(path: string): JsonPath {
  const known = compiled.get(path)
  if (known !== undefined) return known
  const query = parseJsonPath(path)
  const last = query.segments.at(-1)
  const endsInLength = path.endsWith('.length') && last !== undefined && !last.descendant
  const lengthOf = endsInLength ? { ...query, segments: query.segments.slice(0, -1) } : undefined
  const made: JsonPath = { query, hasRegex: hasRegex(query), lengthOf }
  // Paths come from monitor definitions, which come and go: forget everything now and then.
  if (compiled.size >= COMPILED_MAX) compiled.clear()
  compiled.set(path, made)
  return made
}

/**
 * The values that the path finds in the document, in document order. RFC 9535 decides first; where it
 * finds nothing and the path ends in `.length`, the lengths of the arrays and strings (in Unicode
 * characters) that the path without it finds.
 * Throws StepsExceeded after `stepsMax` visited values.
 */
export function findByJsonPath(path: JsonPath, document: Json, stepsMax: number): Json[] {
  const run = new Evaluation(document, stepsMax)
  const found = run.query(path.query, document)
  if (found.length > 0 || path.lengthOf === undefined) return found
  return run
    .query(path.lengthOf, document)
    .filter((value) => typeof value === 'string' || Array.isArray(value))
    .map((value) => run.lengthOf(value) as number)
}

function hasRegex({ segments }: Query): boolean {
  const plainOf = (_: string, value: unknown) => (typeof value === 'bigint' ? null : value)
  return JSON.stringify(segments, plainOf).includes('"true-call"')
}

const NOTHING = Symbol('nothing')
type Value = Json | typeof NOTHING

class Evaluation {
  readonly #document: Json
  readonly #stepsMax: number
  readonly #regexes = new Map<string, RegExp | undefined>()
  #steps = 0

  constructor(document: Json, stepsMax: number) {
    this.#document = document
    this.#stepsMax = stepsMax
  }

  query({ from, segments }: Query, node: Json): Json[] {
    let nodes = [from === 'root' ? this.#document : node]
    for (const segment of segments) {
      if (nodes.length === 0) return nodes
      const next: Json[] = []
      for (const one of nodes) this.#segment(segment, one, next)
      nodes = next
    }
    return nodes
  }

  lengthOf(value: Value): Value {
    if (typeof value === 'string') {
      this.#count(value.length >>> 6)
      let characters = 0
      // oxlint-disable-next-line no-unused-vars -- iterating a string goes by characters
      for (const _ of value) characters++
      return characters
    }
    if (Array.isArray(value)) return value.length
    return isObject(value) ? Object.keys(value).length : NOTHING
  }

  #count(steps: number): void {
    this.#steps += steps
    if (this.#steps > this.#stepsMax) throw new StepsExceeded(this.#stepsMax)
  }

  #segment({ descendant, selectors }: Segment, node: Json, out: Json[]): void {
    if (!descendant) {
      for (const selector of selectors) this.#select(selector, node, out)
      return
    }
    // A stack of our own: documents may be deeper than the stack of calls.
    const waiting: Json[] = [node]
    for (let one = waiting.pop(); one !== undefined; one = waiting.pop()) {
      this.#count(1)
      for (const selector of selectors) this.#select(selector, one, out)
      const children = childrenOf(one)
      for (let place = children.length - 1; place >= 0; place--) {
        const child = children[place] as Json
        if (typeof child === 'object' && child !== null) waiting.push(child)
      }
    }
  }

  #select(selector: Selector, node: Json, out: Json[]): void {
    this.#count(1)
    switch (selector.kind) {
      case 'name':
        if (isObject(node) && Object.hasOwn(node, selector.name)) {
          out.push(node[selector.name] as Json)
        }
        return
      case 'index':
        if (Array.isArray(node)) {
          const value = node.at(selector.index)
          if (value !== undefined) out.push(value)
        }
        return
      case 'wildcard':
        for (const child of childrenOf(node)) {
          this.#count(1)
          out.push(child)
        }
        return
      case 'slice':
        if (Array.isArray(node)) this.#slice(selector, node, out)
        return
      case 'filter':
        for (const child of childrenOf(node)) {
          this.#count(1)
          if (this.#test(selector.test, child)) out.push(child)
        }
    }
  }

  /** RFC 9535, section 2.3.4.2.2. */
  #slice({ start, end, step }: Selector & { kind: 'slice' }, node: Json[], out: Json[]): void {
    if (step === 0) return
    const { length } = node
    const isForward = step > 0
    const [low, high] = isForward ? [0, length] : [-1, length - 1]
    const bounded = (place: number) =>
      Math.min(Math.max(place >= 0 ? place : length + place, low), high)
    const to = bounded(end ?? (isForward ? length : -length - 1))
    let at = bounded(start ?? (isForward ? 0 : length - 1))
    for (; isForward ? at < to : at > to; at += step) {
      this.#count(1)
      out.push(node[at] as Json)
    }
  }

  #test(test: Test, node: Json): boolean {
    this.#count(1)
    switch (test.kind) {
      case 'or':
        return test.tests.some((one) => this.#test(one, node))
      case 'and':
        return test.tests.every((one) => this.#test(one, node))
      case 'not':
        return !this.#test(test.test, node)
      case 'exists':
        return this.query(test.query, node).length > 0
      case 'true-call':
        return this.#matches(test.call, node)
      case 'compare':
      default:
        return this.#compare(test, this.#value(test.left, node), this.#value(test.right, node))
    }
  }

  #value(operand: Operand, node: Json): Value {
    if (operand.kind === 'literal') return operand.value
    if (operand.kind === 'query') {
      const found = this.query(operand.query, node)
      return found.length === 1 ? (found[0] as Json) : NOTHING
    }
    const first = operand.operands[0] as Operand
    if (operand.name === 'length') return this.lengthOf(this.#value(first, node))
    if (first.kind !== 'query') return NOTHING
    const found = this.query(first.query, node)
    if (operand.name === 'count') return found.length
    return found.length === 1 ? (found[0] as Json) : NOTHING
  }

  #matches({ name, operands }: Operand & { kind: 'call' }, node: Json): boolean {
    const [text, pattern] = operands.map((one) => this.#value(one, node))
    if (typeof text !== 'string' || typeof pattern !== 'string') return false
    const whole = name === 'match'
    const key = `${whole}${pattern}`
    if (!this.#regexes.has(key)) this.#regexes.set(key, iRegexp(pattern, whole))
    return this.#regexes.get(key)?.test(text) === true
  }

  #compare({ operator }: { operator: Operator }, left: Value, right: Value): boolean {
    switch (operator) {
      case '==':
        return this.#equal(left, right)
      case '!=':
        return !this.#equal(left, right)
      case '<':
        return isLess(left, right)
      case '>':
        return isLess(right, left)
      case '<=':
        return isLess(left, right) || this.#equal(left, right)
      case '>=':
      default:
        return isLess(right, left) || this.#equal(left, right)
    }
  }

  #equal(left: Value, right: Value): boolean {
    return left === NOTHING || right === NOTHING
      ? left === right
      : sameJson(left, right, () => this.#count(1))
  }
}

/** Whether two JSON values are equal by structure; the order of members does not matter. */
export function sameJson(left: Json, right: Json, visit?: () => void): boolean {
  visit?.()
  if (left === right) return true
  if (isNumeric(left) && isNumeric(right)) return differenceOf(left, right) === 0
  if (Array.isArray(left)) {
    if (!Array.isArray(right) || left.length !== right.length) return false
    return left.every((one, place) => sameJson(one, right[place] as Json, visit))
  }
  if (!isObject(left) || !isObject(right)) return false
  const keys = Object.keys(left)
  if (keys.length !== Object.keys(right).length) return false
  return keys.every(
    (key) => Object.hasOwn(right, key) && sameJson(left[key] as Json, right[key] as Json, visit),
  )
}

/** Whether the value is a JSON object (and no array, no null). */
export function isObject(value: unknown): value is { [key: string]: Json } {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** Whether the value is a number of JSON. */
export function isNumeric(value: unknown): value is number | bigint {
  return typeof value === 'number' || typeof value === 'bigint'
}

function childrenOf(node: Json): Json[] {
  if (Array.isArray(node)) return node
  return isObject(node) ? Object.values(node) : []
}

function isLess(left: Value, right: Value): boolean {
  if (isNumeric(left) && isNumeric(right)) return differenceOf(left, right) < 0
  if (typeof left !== 'string' || typeof right !== 'string') return false
  // By code point, as the RFC wants it; `<` on strings goes by UTF-16 unit.
  let at = 0
  while (at < left.length && left[at] === right[at]) at++
  // A difference within a pair of surrogates is a difference of the two characters.
  if (at > 0 && /[\udc00-\udfff]/.test(`${left[at] ?? ''}${right[at] ?? ''}`)) at--
  return (left.codePointAt(at) ?? -1) < (right.codePointAt(at) ?? -1)
}

/** RFC 9485 regular expressions in ECMAScript terms; a pattern that is none matches nothing. */
function iRegexp(pattern: string, whole: boolean): RegExp | undefined {
  // Only a dot outside of classes and escapes means "any character but line ends".
  const dots = pattern.replaceAll(/\\.|\[(?:\\.|[^\]\\])*\]|\./gsu, (token) =>
    token === '.' ? String.raw`[^\n\r]` : token,
  )
  try {
    return new RegExp(whole ? `^(?:${dots})$` : dots, 'u')
  } catch {
    return undefined
  }
}

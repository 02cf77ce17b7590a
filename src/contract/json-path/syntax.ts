// The syntax of JSONPath (RFC 9535) as a tree, and its parser with messages that name the position.
// Our own because a filter that is read wrongly is a monitor that passes when it should fail.

import { readNumber } from '../exact-json.ts'

export type Literal = string | number | bigint | boolean | null

export type Selector =
  | { kind: 'name'; name: string }
  | { kind: 'index'; index: number }
  | { kind: 'wildcard' }
  | { kind: 'slice'; start: number | undefined; end: number | undefined; step: number }
  | { kind: 'filter'; test: Test }

export interface Segment {
  descendant: boolean
  selectors: Selector[]
}

/** A path from the document (`$`) or, in filters, from the node in question (`@`). */
export interface Query {
  from: 'root' | 'node'
  segments: Segment[]
}

/** A value inside a filter. */
export type Operand =
  | { kind: 'literal'; value: Literal }
  | { kind: 'query'; query: Query }
  | { kind: 'call'; name: FunctionName; operands: Operand[] }

export type Operator = '==' | '!=' | '<' | '<=' | '>' | '>='

/** A condition inside a filter. */
export type Test =
  | { kind: 'or'; tests: Test[] }
  | { kind: 'and'; tests: Test[] }
  | { kind: 'not'; test: Test }
  | { kind: 'true-call'; call: Operand & { kind: 'call' } }
  | { kind: 'exists'; query: Query }
  | { kind: 'compare'; operator: Operator; left: Operand; right: Operand }

type Parameter = 'value' | 'nodes'

/** The functions of RFC 9535, section 2.4, with the types that section 2.4.3 checks. */
const FUNCTIONS = {
  length: { parameters: ['value'], gives: 'value' },
  count: { parameters: ['nodes'], gives: 'value' },
  match: { parameters: ['value', 'value'], gives: 'logical' },
  search: { parameters: ['value', 'value'], gives: 'logical' },
  value: { parameters: ['nodes'], gives: 'value' },
} as const satisfies Record<string, { parameters: Parameter[]; gives: 'value' | 'logical' }>

export type FunctionName = keyof typeof FUNCTIONS

/** Brackets within brackets; no path that a person writes comes near. */
const NESTING_MAX = 32

/** A path that cannot be read; `position` counts characters from 1. */
export class JsonPathError extends Error {
  readonly position: number

  constructor(message: string, position: number) {
    super(`${message} at character ${position}`)
    this.name = 'JsonPathError'
    this.position = position
  }
}

/** Whether the query can find one node at most (RFC 9535, section 2.3.5.1). */
function isSingular(query: Query): boolean {
  return query.segments.every(
    ({ descendant, selectors }) =>
      !descendant && selectors.length === 1 && /^(name|index)$/.test(selectors[0]?.kind ?? ''),
  )
}

/** Reads a path; throws JsonPathError with the position of what cannot be read. */
export function parseJsonPath(path: string): Query {
  return new Parser(path).path()
}

const BLANK = /[ \t\n\r]*/y
const INTEGER = /-?[1-9][0-9]*|0/y
const NUMBER = /(?:-0|-?[1-9][0-9]*|0)(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?/y
const SHORTHAND =
  /(?:[A-Za-z_\u0080-\ud7ff\ue000-\uffff]|[\ud800-\udbff][\udc00-\udfff])(?:[A-Za-z0-9_\u0080-\ud7ff\ue000-\uffff]|[\ud800-\udbff][\udc00-\udfff])*/y
const FUNCTION = /[a-z][a-z0-9_]*(?=\()/y
const OPERATOR = /==|!=|<=|>=|<|>/y
const WORD = /(?:true|false|null)(?![A-Za-z0-9_])/y
// Everything but the two quotes, the backslash, control characters and lone surrogates.
const UNESCAPED = /(?:[ !#-&(-[\]-\ud7ff\ue000-\uffff]|[\ud800-\udbff][\udc00-\udfff])+/y
// As in JSON, but for halves of surrogate pairs.
const ESCAPE =
  /[bfnrt/\\]|u(?:[Dd][89ABab][0-9A-Fa-f]{2}\\u[Dd][C-Fc-f][0-9A-Fa-f]{2}|(?![Dd][89A-Fa-f])[0-9A-Fa-f]{4})/y

class Parser {
  readonly #text: string
  #at = 0
  #nesting = 0

  constructor(text: string) {
    this.#text = text
  }

  path(): Query {
    if (!this.#accept('$')) this.#fail('a path must start with $')
    const segments = this.#segments()
    if (this.#at < this.#text.length) this.#fail('expected .name, [selector] or the end')
    return { from: 'root', segments }
  }

  #fail(message: string, at = this.#at): never {
    const found = at < this.#text.length ? `, found ${JSON.stringify(this.#text[at])}` : ''
    throw new JsonPathError(`${message}${found}`, at + 1)
  }

  #accept(token: string): boolean {
    if (!this.#text.startsWith(token, this.#at)) return false
    this.#at += token.length
    return true
  }

  #expect(token: string): void {
    if (!this.#accept(token)) this.#fail(`expected ${token}`)
  }

  #match(pattern: RegExp): string | undefined {
    pattern.lastIndex = this.#at
    const found = pattern.exec(this.#text)?.[0]
    this.#at += found?.length ?? 0
    return found
  }

  #blank(): void {
    this.#match(BLANK)
  }

  /** What `read` finds after blanks; where that is nothing, the blanks stay as well. */
  #afterBlank<T>(read: () => T | undefined): T | undefined {
    const before = this.#at
    this.#blank()
    const found = read()
    if (found === undefined) this.#at = before
    return found
  }

  #acceptAfterBlank(token: string): boolean {
    return this.#afterBlank(() => this.#accept(token) || undefined) === true
  }

  #nested<T>(read: () => T): T {
    if (++this.#nesting > NESTING_MAX) this.#fail('brackets nested too deep')
    const result = read()
    this.#nesting--
    return result
  }

  #segments(): Segment[] {
    const segments: Segment[] = []
    for (;;) {
      const segment = this.#afterBlank(() => this.#segment())
      if (segment === undefined) return segments
      segments.push(segment)
    }
  }

  #segment(): Segment | undefined {
    if (this.#accept('..')) {
      const selectors = this.#accept('[') ? this.#bracketed() : [this.#dotted()]
      return { descendant: true, selectors }
    }
    if (this.#accept('.')) return { descendant: false, selectors: [this.#dotted()] }
    if (this.#accept('[')) return { descendant: false, selectors: this.#bracketed() }
    return undefined
  }

  #dotted(): Selector {
    if (this.#accept('*')) return { kind: 'wildcard' }
    const name = this.#match(SHORTHAND)
    if (name === undefined) this.#fail("expected a name or *; other names go into ['…']")
    return { kind: 'name', name }
  }

  #bracketed(): Selector[] {
    return this.#nested(() => this.#list(']', () => this.#selector()))
  }

  /** `one, two, three` up to the closing token. */
  #list<T>(close: string, read: () => T): T[] {
    const items: T[] = []
    do {
      this.#blank()
      items.push(read())
      this.#blank()
    } while (this.#accept(','))
    if (!this.#accept(close)) this.#fail(`expected , or ${close}`)
    return items
  }

  #selector(): Selector {
    if (this.#accept('*')) return { kind: 'wildcard' }
    if (this.#accept('?')) {
      this.#blank()
      return { kind: 'filter', test: this.#or() }
    }
    const name = this.#string()
    if (name !== undefined) return { kind: 'name', name }
    const start = this.#integer()
    if (this.#acceptAfterBlank(':')) return this.#slice(start)
    if (start === undefined) this.#fail("expected 'name', *, an index, a slice or ?filter")
    return { kind: 'index', index: start }
  }

  #slice(start: number | undefined): Selector {
    this.#blank()
    const end = this.#integer()
    const step = this.#acceptAfterBlank(':') ? this.#afterBlank(() => this.#integer()) : undefined
    return { kind: 'slice', start, end, step: step ?? 1 }
  }

  #integer(): number | undefined {
    const at = this.#at
    const digits = this.#match(INTEGER)
    if (digits === undefined) return undefined
    const value = Number(digits)
    if (!Number.isSafeInteger(value)) this.#fail('this number is too large', at)
    return value
  }

  #string(): string | undefined {
    const quote = this.#accept("'") ? "'" : this.#accept('"') ? '"' : undefined
    if (quote === undefined) return undefined
    const other = quote === "'" ? '"' : "'"
    let value = ''
    while (!this.#accept(quote)) {
      const plain = this.#match(UNESCAPED)
      if (plain !== undefined) value += plain
      else if (this.#accept(other)) value += other
      else if (this.#accept('\\')) value += this.#escape(quote)
      else this.#fail(this.#at < this.#text.length ? 'not allowed in a name' : `expected ${quote}`)
    }
    return value
  }

  #escape(quote: string): string {
    if (this.#accept(quote)) return quote
    const found = this.#match(ESCAPE) ?? this.#fail('not an escape')
    return JSON.parse(`"\\${found}"`) as string
  }

  #or(): Test {
    return this.#nested(() => {
      const tests = this.#joined('||', () => this.#and())
      return tests.length === 1 ? (tests[0] as Test) : { kind: 'or', tests }
    })
  }

  #and(): Test {
    const tests = this.#joined('&&', () => this.#basic())
    return tests.length === 1 ? (tests[0] as Test) : { kind: 'and', tests }
  }

  #joined(token: string, read: () => Test): Test[] {
    const tests = [read()]
    while (this.#acceptAfterBlank(token)) {
      this.#blank()
      tests.push(read())
    }
    return tests
  }

  #basic(): Test {
    const negated = this.#accept('!')
    if (negated) this.#blank()
    let test: Test
    if (this.#accept('(')) {
      this.#blank()
      test = this.#or()
      this.#blank()
      this.#expect(')')
    } else {
      test = this.#condition(negated)
    }
    return negated ? { kind: 'not', test } : test
  }

  #condition(negated: boolean): Test {
    const at = this.#at
    const left = this.#operand()
    const operator = negated ? undefined : this.#afterBlank(() => this.#match(OPERATOR))
    if (operator !== undefined) {
      this.#requireValue(left, at)
      this.#blank()
      const rightAt = this.#at
      const right = this.#operand()
      this.#requireValue(right, rightAt)
      return { kind: 'compare', operator: operator as Operator, left, right }
    }
    if (left.kind === 'query') return { kind: 'exists', query: left.query }
    if (left.kind === 'call' && FUNCTIONS[left.name].gives === 'logical') {
      return { kind: 'true-call', call: left }
    }
    return this.#fail('this needs a comparison (== != < <= > >=)')
  }

  #operand(): Operand {
    const text = this.#string()
    if (text !== undefined) return { kind: 'literal', value: text }
    const literal = this.#match(WORD)
    if (literal !== undefined) return { kind: 'literal', value: JSON.parse(literal) as Literal }
    if (this.#accept('@')) {
      return { kind: 'query', query: { from: 'node', segments: this.#segments() } }
    }
    if (this.#accept('$')) {
      return { kind: 'query', query: { from: 'root', segments: this.#segments() } }
    }
    const digits = this.#match(NUMBER)
    if (digits !== undefined)
      return { kind: 'literal', value: readNumber(digits) ?? Number(digits) }
    return this.#call()
  }

  #call(): Operand {
    const at = this.#at
    const name = this.#match(FUNCTION)
    if (name === undefined) this.#fail('expected @, $, a function, a string or a number')
    if (!Object.hasOwn(FUNCTIONS, name)) {
      const known = Object.keys(FUNCTIONS).join(', ')
      this.#fail(`unknown function ${name}; known are ${known};`, at)
    }
    const { parameters } = FUNCTIONS[name as FunctionName]
    this.#expect('(')
    const operands = this.#nested(() => this.#list(')', () => this.#operand()))
    if (operands.length !== parameters.length) {
      this.#fail(`${name}() takes ${parameters.length} argument(s)`, at)
    }
    for (const [place, parameter] of parameters.entries()) {
      const operand = operands[place] as Operand
      if (parameter === 'value') this.#requireValue(operand, at)
      else if (operand.kind !== 'query') this.#fail(`${name}() takes a path`, at)
    }
    return { kind: 'call', name: name as FunctionName, operands }
  }

  #requireValue(operand: Operand, at: number): void {
    if (operand.kind === 'query' && !isSingular(operand.query)) {
      this.#fail('only a path to one value can be used here', at)
    }
    if (operand.kind === 'call' && FUNCTIONS[operand.name].gives !== 'value') {
      this.#fail(`${operand.name}() is true or false and cannot be compared`, at)
    }
  }
}

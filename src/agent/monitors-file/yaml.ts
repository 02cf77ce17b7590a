// Reads YAML whose bulk is one long list, section by section: a tree of the whole file with all its
// positions would cost hundreds of megabytes for 10,000 monitors. Positions are found afterwards, by
// reading again the one section that a problem is in.
import { setImmediate as nextTurn } from 'node:timers/promises'
import {
  isAlias,
  isMap,
  isNode,
  isPair,
  isScalar,
  isSeq,
  parseDocument,
  visit,
  type Document,
  type Node,
} from 'yaml'
import { DECIMAL } from '../../contract/exact-json.ts'
import { LIMITS } from '../../contract/versions.ts'
import type { Path } from './problems.ts'
import { sectionsOf, type Section } from './sections.ts'
import { DEPTH_MAX, syntaxMistakes, TOO_DEEP } from './syntax-errors.ts'

/** Texts up to this length are read in one piece. UTF-16 units. */
const WHOLE_CHARS_MAX = 16_384
/** Nodes of the value once every alias is written out. */
const NODES_MAX = 5_000_000

export interface Position {
  line: number
  column: number
}

/** What stands in the way of reading the text as YAML, or is hardly meant as it is read. */
export interface SyntaxProblem extends Position {
  message: string
}

export interface ParsedYaml {
  /** The value of the text; a list at the top stands under the key `monitors`. */
  value: unknown
  problems: SyntaxProblem[]
  warnings: SyntaxProblem[]
  /** Where the path leads, or the nearest place on the way. */
  locate(path: Path, atKey: boolean): Position
}

/** Reads the text; gives way to other work between sections. Never throws, whatever the text. */
export async function parseYaml(text: string): Promise<ParsedYaml> {
  const sections = text.length > WHOLE_CHARS_MAX ? sectionsOf(text) : undefined
  const count = sections?.reduce((sum, { itemCount }) => sum + itemCount, 0) ?? 0
  if (sections !== undefined && count > LIMITS.monitorsMax) return tooMany(sections, count)
  const parsed = sections === undefined ? undefined : await parseSections(sections)
  return parsed ?? parseWhole(text)
}

/** Refuses a list that is too long before it is read. */
function tooMany(sections: readonly Section[], count: number): ParsedYaml {
  const line = (sections[1]?.linesBefore ?? 0) + 1
  const message = `has ${count} monitors; at most ${LIMITS.monitorsMax} are allowed`
  const place = { line, column: 1 }
  return {
    value: undefined,
    problems: [{ ...place, message }],
    warnings: [],
    locate: () => place,
  }
}

function parseWhole(text: string): ParsedYaml {
  const section = { text, linesBefore: 0, itemCount: 0 }
  const { value, problems, warnings } = readSection(section)
  const list = Array.isArray(value)
  const locateIn = createLocator()
  return {
    value: list ? { monitors: value } : value,
    problems,
    warnings,
    locate: (path, atKey) => locateIn(section, list ? path.slice(1) : path, atKey),
  }
}

/** Undefined when the sections do not stand on their own after all, as with an alias across them. */
async function parseSections(sections: Section[]): Promise<ParsedYaml | undefined> {
  const monitors: unknown[] = []
  const firstItems = new Map<Section, number>()
  const problems: SyntaxProblem[] = []
  const warnings: SyntaxProblem[] = []
  let around: unknown
  for (const section of sections) {
    const read = readSection(section)
    if (read.unresolved) return undefined
    problems.push(...read.problems)
    warnings.push(...read.warnings)
    if (section.itemCount === 0) around = read.value
    else if (Array.isArray(read.value)) {
      firstItems.set(section, monitors.length)
      for (const item of read.value as unknown[]) monitors.push(item)
    } else if (read.problems.length === 0) return undefined
    await nextTurn()
  }
  if (typeof around === 'string' || Array.isArray(around)) return undefined
  const locateIn = createLocator()
  return {
    value: { ...(around as object | null), monitors },
    problems,
    warnings,
    locate: (path, atKey) => {
      const index = path[0] === 'monitors' ? path[1] : undefined
      const home =
        typeof index === 'number'
          ? sections.findLast((one) => (firstItems.get(one) ?? Infinity) <= index)
          : undefined
      if (home === undefined) return locateIn(sections[0] as Section, path, atKey)
      const local = (index as number) - (firstItems.get(home) ?? 0)
      return locateIn(home, [local, ...path.slice(2)], atKey)
    },
  }
}

interface Read {
  value: unknown
  problems: SyntaxProblem[]
  warnings: SyntaxProblem[]
  /** An alias without its anchor is among the problems. */
  unresolved: boolean
}

function readSection(section: Section): Read {
  const problems: SyntaxProblem[] = []
  const warnings: SyntaxProblem[] = []
  const nothing = { value: undefined, problems, warnings, unresolved: false }
  const add = (offset: number, message: string) =>
    problems.push({ ...positionAt(section, offset), message })
  try {
    const document = documentOf(section.text)
    for (const one of syntaxMistakes(section.text, document)) add(one.offset, one.message)
    if (problems.length > 0) return nothing
    const alias = section.text.includes('*') ? brokenAlias(document) : undefined
    if (alias !== undefined) {
      add(alias.offset, alias.isCyclic ? CYCLIC_ALIAS : UNRESOLVED_ALIAS)
      return alias.isCyclic ? nothing : { ...nothing, unresolved: true }
    }
    preserveDigits(section, document, warnings)
    const value: unknown = document.toJS({ maxAliasCount: -1 })
    const trouble = excess(value)
    if (trouble === undefined) return { ...nothing, value }
    add(0, trouble)
  } catch (error) {
    // The reader is recursive; anything else that it throws is about the text too.
    const tooDeep = error instanceof RangeError
    add(0, tooDeep ? TOO_DEEP : 'is not valid YAML')
  }
  return nothing
}

/**
 * Targets of assertions and values of `variables` become texts: numbers there keep their spelling where reading would
 * change it, like `1.10`, `0o17` or 20 digits. A target that is a number for YAML alone, like `.5`, gets a warning.
 */
function preserveDigits(section: Section, document: Document, warnings: SyntaxProblem[]): void {
  if (!section.text.includes('target') && !section.text.includes('variables')) return
  visit(document, {
    Pair(_, { key, value }, path) {
      if (!isScalar(key) || !isScalar(value) || typeof value.value !== 'number') return
      const mapping = path.length === 4 ? path[2] : undefined
      const isVariable = isPair(mapping) && String(mapping.key) === 'variables'
      if (key.value !== 'target' && !isVariable) return
      const text = value.source ?? String(value.value)
      if (!isVariable && !DECIMAL.test(text)) {
        const message = `the target ${text} is compared as a string; write a decimal number such as 0.5, or put it in quotes`
        warnings.push({ ...positionAt(section, value.range?.[0] ?? 0), message })
      }
      if (String(value.value) !== text) value.value = text
    },
  })
}

/** The tree of a monitors file, or of a section of it. */
export function documentOf(text: string): Document.Parsed {
  return parseDocument(text, {
    merge: true,
    prettyErrors: false,
    schema: 'core',
    logLevel: 'error',
  })
}

const UNRESOLVED_ALIAS =
  'an alias (*name) without its anchor (&name) before it; put a text in quotes'
const CYCLIC_ALIAS =
  'an alias (*name) refers to itself: it is inside its own anchor (&name); remove the alias'

/** The first alias that has no anchor before it, or that is inside the value of its anchor. */
function brokenAlias(document: Document): { offset: number; isCyclic: boolean } | undefined {
  const anchors = new Map<string, Node>()
  let broken: { offset: number; isCyclic: boolean } | undefined
  visit(document, {
    Node(_, node, path) {
      if (isAlias(node)) {
        const anchored = anchors.get(node.source)
        const isCyclic = anchored !== undefined && path.includes(anchored)
        if (anchored !== undefined && !isCyclic) return undefined
        broken = { offset: node.range?.[0] ?? 0, isCyclic }
        return visit.BREAK
      }
      if (node.anchor !== undefined) anchors.set(node.anchor, node)
      return undefined
    },
  })
  return broken
}

/** The limit that a value exceeds: aliases make a small text a huge or deep value. */
function excess(root: unknown): string | undefined {
  let nodes = 0
  const count = (value: unknown, depth: number): string | undefined => {
    if (++nodes > NODES_MAX) return `aliases expand to more than ${NODES_MAX} values`
    if (typeof value !== 'object' || value === null) return undefined
    if (depth > DEPTH_MAX) return TOO_DEEP
    for (const inner of Object.values(value)) {
      const problem = count(inner, depth + 1)
      if (problem !== undefined) return problem
    }
    return undefined
  }
  return count(root, 0)
}

function positionAt(section: Section, offset: number): Position {
  const before = section.text.slice(0, Math.max(0, offset))
  const line = section.linesBefore + before.split('\n').length
  return { line, column: before.length - before.lastIndexOf('\n') }
}

/** Finds places by reading sections again; keeps the last one, as problems come in order. */
function createLocator(): (section: Section, path: Path, atKey: boolean) => Position {
  let last: { section: Section; document: Document } | undefined
  return (section, path, atKey) => {
    if (last?.section !== section) last = { section, document: documentOf(section.text) }
    return positionAt(section, offsetOf(last.document, path, atKey))
  }
}

function offsetOf(document: Document, path: Path, atKey: boolean): number {
  let node: unknown = document.contents
  let offset = startOf(node) ?? 0
  for (const [index, key] of path.entries()) {
    if (isAlias(node)) node = node.resolve(document)
    if (isSeq(node)) node = node.items[Number(key)]
    else if (isMap(node)) {
      const pair = node.items.find((one) => isScalar(one.key) && String(one.key.value) === key)
      if (pair === undefined) return offset
      const last = index === path.length - 1
      offset = startOf(pair.key) ?? offset
      if (last && atKey) return offset
      node = pair.value
    } else return offset
    // A missing value has no place; its key has one.
    if (!isScalar(node) || node.source !== '') offset = startOf(node) ?? offset
  }
  return offset
}

function startOf(node: unknown): number | undefined {
  return isNode(node) ? node.range?.[0] : undefined
}

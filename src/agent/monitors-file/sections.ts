// Cuts the text of a large monitors file into sections that can be read one by one.

/**
 * Length from which a section is ended at the next item. UTF-16 units. Small, so that the tree of a
 * section is garbage before it is old: measured, 64 Ki take a third longer and twice the memory.
 */
const SECTION_CHARS = 4096

/** A part of the text that is YAML by itself. */
export interface Section {
  text: string
  /** Lines before it. */
  linesBefore: number
  /** Items of the list; 0 for what stands around the list. */
  itemCount: number
}

/** A pattern at the beginning of a line. Not by `^`, which takes more characters for line ends than YAML does. */
const atLine = (pattern: string, flags = '') => new RegExp(`(?<![^\\n])${pattern}`, flags)

const EMPTY_LINES = String.raw`(?: *(?:#[^\n]*)?\r?\n)*`
const HEAD = new RegExp(String.raw`^${EMPTY_LINES}(?:---[ \t]*\r?\n)?`)
const TOP_LIST = new RegExp(String.raw`^${EMPTY_LINES}-\s`)
const KEY = atLine(String.raw`monitors:[ \t]*(?:#[^\n]*)?\r?\n`)
const FIRST_ITEM = new RegExp(String.raw`^${EMPTY_LINES}( *)-\s`)
/** Begins or ends a document, or is a directive. */
const MARKER = atLine(String.raw`(?:---|\.\.\.|%)`)

/**
 * Cuts a text of the usual shape (a block list at the top or under `monitors:`) between items of that
 * list. By YAML's rules for indentation (1.2.2, 8.2.1) a dash at the list's own depth begins an item,
 * whatever stands before it. Undefined when the text has another shape.
 */
export function sectionsOf(text: string): Section[] | undefined {
  const head = HEAD.exec(text)?.[0].length ?? 0
  const body = text.slice(head)
  const isTopList = TOP_LIST.test(body)
  const key = isTopList ? null : KEY.exec(body)
  if (MARKER.test(body) || (!isTopList && key === null)) return undefined
  const start = head + (key === null ? 0 : key.index + key[0].length)
  const rest = text.slice(start)
  const depth = FIRST_ITEM.exec(rest)?.[1]?.length
  if (depth === undefined) return undefined
  // Not empty, not deeper than the list, and no item.
  const after = atLine(
    String.raw`(?! *(?:#|\r?\n|$))(?! {${depth + 1}})(?! {${depth}}-(?:\s|$))[^]`,
  ).exec(rest)
  // Only another key of the mapping at the top may follow the list.
  if (after !== null && (isTopList || after[0] === ' ')) return undefined
  const end = after === null ? text.length : start + after.index
  return [around(text, start, end), ...listsOf(text, start, end, depth)]
}

/** Empty lines in place of the list keep the line numbers of what follows it. */
function around(text: string, start: number, end: number): Section {
  const gap = end === text.length ? '' : '\n'.repeat(linesIn(text.slice(start, end)))
  return { text: text.slice(0, start) + gap + text.slice(end), linesBefore: 0, itemCount: 0 }
}

function listsOf(text: string, start: number, end: number, depth: number): Section[] {
  const lists: Section[] = []
  let from = start
  let linesBefore = linesIn(text.slice(0, start))
  let itemCount = 0
  const add = (until: number) => {
    const part = text.slice(from, until)
    lists.push({ text: part, linesBefore, itemCount })
    linesBefore += linesIn(part)
    from = until
    itemCount = 0
  }
  for (const { index } of text.slice(start, end).matchAll(atLine(` {${depth}}-(?=\\s)`, 'g'))) {
    if (start + index - from >= SECTION_CHARS) add(start + index)
    itemCount++
  }
  add(end)
  return lists
}

function linesIn(text: string): number {
  return text.split('\n').length - 1
}

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
  /** Whether it holds items of the list; else it is what stands around the list. */
  items: boolean
}

interface Line {
  at: number
  next: number
  number: number
  /** Blanks before the first other character; -1 when there is none, or only a comment. */
  depth: number
  /** Begins an item of a block list. */
  dash: boolean
}

/**
 * Cuts a text of the usual shape (a block list at the top or under `monitors:`) between items of that
 * list. By YAML's rules for indentation (1.2.2, 8.2.1) a dash at the list's own depth begins an item,
 * whatever stands before it. Undefined when the text has another shape.
 */
export function sectionsOf(text: string): Section[] | undefined {
  const start = startOfList(text)
  if (start === undefined) return undefined
  const cuts: Line[] = []
  let depth = -1
  let from = start.at
  let end: Line = { at: text.length, next: text.length, number: 0, depth: 0, dash: false }
  for (const line of linesOf(text, start.at, start.number)) {
    if (line.depth < 0) continue
    if (isMarker(text, line)) return undefined
    if (depth < 0) {
      if (!line.dash) return undefined
      depth = line.depth
    }
    if (line.depth < depth || (line.depth === depth && !line.dash)) {
      // Only another key of the mapping at the top may follow the list.
      if (line.depth !== 0 || !start.underKey) return undefined
      end = line
      break
    }
    if (line.dash && line.depth === depth && line.at - from >= SECTION_CHARS) {
      cuts.push(line)
      from = line.at
    }
  }
  if (depth < 0 || tailHasMarker(text, end)) return undefined
  return assemble(text, start, cuts, end)
}

function assemble(text: string, start: Line, cuts: Line[], end: Line): Section[] {
  const begins = [start, ...cuts]
  const lists = begins.map((begin, index) => ({
    text: text.slice(begin.at, begins[index + 1]?.at ?? end.at),
    linesBefore: begin.number,
    items: true,
  }))
  // Empty lines in place of the list keep the line numbers of what follows it.
  const gap = end.at === text.length ? '' : '\n'.repeat(end.number - start.number)
  const around = `${text.slice(0, start.at)}${gap}${text.slice(end.at)}`
  return [{ text: around, linesBefore: 0, items: false }, ...lists]
}

function startOfList(text: string): (Line & { underKey: boolean }) | undefined {
  let empty = true
  for (const line of linesOf(text, 0, 0)) {
    if (line.depth < 0) continue
    const content = text.slice(line.at, Math.min(line.next, line.at + 256))
    if (empty && /^---\s*$/.test(content)) continue
    if (isMarker(text, line)) return undefined
    if (empty && line.dash) return line.depth === 0 ? { ...line, underKey: false } : undefined
    empty = false
    if (/^monitors:[ \t]*(?:#.*)?\r?\n/.test(content)) {
      return { ...line, at: line.next, number: line.number + 1, underKey: true }
    }
  }
  return undefined
}

function tailHasMarker(text: string, end: Line): boolean {
  for (const line of linesOf(text, end.at, end.number)) {
    if (line.depth === 0 && isMarker(text, line)) return true
  }
  return false
}

/** Begins or ends a document, or is a directive. */
function isMarker(text: string, line: Line): boolean {
  return line.depth === 0 && /^(?:---|\.\.\.|%)/.test(text.slice(line.at, line.at + 3))
}

function* linesOf(text: string, from: number, number: number): Generator<Line> {
  for (let at = from; at < text.length; number++) {
    const next = text.indexOf('\n', at) + 1 || text.length
    let first = at
    while (text[first] === ' ') first++
    const char = first < next ? text[first] : undefined
    const blank = char === undefined || char === '\n' || char === '\r' || char === '#'
    const dash = char === '-' && /\s/.test(text[first + 1] ?? '\n')
    yield { at, next, number, depth: blank ? -1 : first - at, dash }
    at = next
  }
}

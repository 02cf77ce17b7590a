// Markdown as text for a terminal: headings, paragraphs, lists, code and tables as the pages of the manual use them.
import { wrapText } from '../../process/columns.ts'

/** Between the columns of a table. */
const GAP = '  '
/** The narrowest that a column becomes. */
const COLUMN_MIN = 8

/** The topic of the page that a link leads to; undefined for the page itself and for files that are no pages. */
type TopicAt = (href: string) => string | undefined

/** The page as text of at most `columns` characters a line, except in code. */
export function plainText(markdown: string, columns: number, topicAt: TopicAt): string {
  const lines: string[] = []
  let block: string[] = []
  let isCode = false
  const inline = (text: string) => withoutMarks(text, topicAt)
  const endBlock = () => {
    if (block.length > 0) lines.push(...blockLines(block, columns, inline))
    block = []
  }
  for (const line of markdown.trimEnd().split('\n')) {
    if (line.startsWith('```')) {
      endBlock()
      isCode = !isCode
    } else if (isCode) lines.push(`    ${line}`.trimEnd())
    else {
      const continues = line !== '' && !line.startsWith('#') && !LIST.test(line)
      if (!continues || line.startsWith('|') !== (block[0] ?? line).startsWith('|')) endBlock()
      if (line === '') lines.push('')
      else block.push(line)
    }
  }
  endBlock()
  return `${lines.join('\n')}\n`
}

const LIST = /^ *(?:- |\d+\. )/
const IMAGE = /^!\[[^\]]*\]\([^)]*\)$/

/** A heading, a table, a paragraph or an entry of a list. */
function blockLines(block: readonly string[], columns: number, inline: Inline): string[] {
  const [first = ''] = block
  if (first.startsWith('|')) return tableLines(block, columns, inline)
  if (IMAGE.test(first)) return []
  const heading = /^(#+) (.*)$/.exec(first)
  if (heading !== null) {
    const text = inline(heading[2] ?? '')
    return [text, (heading[1] === '#' ? '=' : '-').repeat(text.length)]
  }
  const indent = LIST.exec(first)?.[0] ?? ''
  const text = inline(
    [first.slice(indent.length), ...block.slice(1)].map((one) => one.trim()).join(' '),
  )
  const [head = '', ...rest] = wrapText(text, columns - indent.length)
  return [`${indent}${head}`, ...rest.map((one) => `${' '.repeat(indent.length)}${one}`)]
}

/** A text without its marks. */
type Inline = (text: string) => string

/** Without emphasis; of links to the web the address stays, of those to other pages the text and the topic. */
function withoutMarks(text: string, topicAt: TopicAt): string {
  return text
    .replaceAll(/\[([^\]]*)\]\((https?:[^)]*)\)/g, '$1 ($2)')
    .replaceAll(/\[([^\]]*)\]\(([^)#]*)[^)]*\)/g, (_, label: string, href: string) => {
      const topic = topicAt(href)
      return topic === undefined ? label : `${label} (vedette help ${topic})`
    })
    .replaceAll(/\*\*([^*]+)\*\*/g, '$1')
}

/** Rows of cells: the widest columns are made narrower until a row fits. */
function tableLines(rows: readonly string[], columns: number, inline: Inline): string[] {
  const cells = rows
    .filter((row) => !/^\|[\s:|-]+\|$/.test(row))
    .map((row) =>
      row
        .slice(1, -1)
        .split(/(?<!\\)\|/)
        .map((cell) => inline(cell.replaceAll(String.raw`\|`, '|').trim())),
    )
  const count = Math.max(...cells.map((row) => row.length))
  const longest = (parts: (cell: string) => number[]) =>
    Array.from({ length: count }, (_, at) =>
      Math.max(...cells.flatMap((row) => parts(row[at] ?? ''))),
    )
  let widths = longest((cell) => [cell.length])
  const words = longest((cell) => cell.split(' ').map((word) => word.length))
  const room = Math.max(columns - GAP.length * (count - 1), count * COLUMN_MIN)
  while (widths.reduce((sum, one) => sum + one, 0) > room) {
    // Columns that would break their longest word come last.
    const wrapping = widths.map((width, at) => (width > (words[at] ?? 0) ? width : 0))
    const from = wrapping.some((one) => one > 0) ? wrapping : widths
    const widest = from.indexOf(Math.max(...from))
    widths = widths.with(widest, (widths[widest] ?? 0) - 1)
  }
  const line = (parts: readonly string[]) =>
    widths
      .map((width, at) => (parts[at] ?? '').padEnd(width))
      .join(GAP)
      .trimEnd()
  const [head = [], ...body] = cells.map((row) => {
    const lists = widths.map((width, at) => wrapText(row[at] ?? '', width))
    const height = Math.max(...lists.map((list) => list.length))
    return Array.from({ length: height }, (_, index) =>
      line(lists.map((list) => list[index] ?? '')),
    )
  })
  return [...head, line(widths.map((width) => '-'.repeat(width))), ...body.flat()]
}

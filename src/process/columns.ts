// Texts as lines in columns, and wrapped.

/** A line for each row: cells are padded to the widest one of their column, except those of the last column. */
export function inColumns(rows: readonly (readonly string[])[]): string[] {
  const last = Math.max(0, ...rows.map((row) => row.length)) - 1
  const widths = Array.from({ length: last }, (_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  )
  return rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
}

/** Lines of at most `width` characters; a longer word has a line of its own. */
export function wrapText(text: string, width: number): string[] {
  const lines: string[] = []
  let last = ''
  for (const word of text.split(' ')) {
    if (last !== '' && last.length + 1 + word.length > width) {
      lines.push(last)
      last = ''
    }
    last = last === '' ? word : `${last} ${word}`
  }
  return [...lines, last]
}

// Prints figures as a Markdown table, ready for the README.

/** A Markdown table; the first row is the head. */
export function markdownTable(rows: readonly (readonly (string | number)[])[]): string {
  const cells = rows.map((row) => row.map(String))
  const widths = (cells[0] ?? []).map((_, column) =>
    Math.max(...cells.map((row) => row[column]?.length ?? 0)),
  )
  const line = (row: readonly string[]) =>
    `| ${row.map((cell, column) => cell.padEnd(widths[column] ?? 0)).join(' | ')} |`
  const [head = [], ...body] = cells
  return [line(head), line(widths.map((width) => '-'.repeat(width))), ...body.map(line)].join('\n')
}

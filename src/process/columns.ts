// Rows of texts as lines in columns.

/** A line for each row: cells are padded to the widest one of their column, except those of the last column. */
export function inColumns(rows: readonly (readonly string[])[]): string[] {
  const last = Math.max(0, ...rows.map((row) => row.length)) - 1
  const widths = Array.from({ length: last }, (_, at) =>
    Math.max(...rows.map((row) => row[at]?.length ?? 0)),
  )
  return rows.map((row) => row.map((cell, at) => cell.padEnd(widths[at] ?? 0)).join('  '))
}

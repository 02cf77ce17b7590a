// Results as an agent logs them: one JSON object a line on its standard output, with LOG_RESULTS=all.
import type { Readable } from 'node:stream'
import { createInterface } from 'node:readline'
import type { LoadResult } from './load-check.ts'

/** Environment of an agent whose results are read. */
export const LOGS_RESULTS = { LOG_RESULTS: 'all', LOG_LEVEL: 'INFO' }

/** Calls `listener` with each result that the agent logs; other lines are left out. */
export function onResultLine(stdout: Readable, listener: (result: LoadResult) => void): void {
  createInterface({ input: stdout }).on('line', (line) => {
    if (!line.includes('"result":')) return
    const { result } = JSON.parse(line) as { result?: LoadResult }
    if (result !== undefined) listener(result)
  })
}

// A log that collects its lines for tests.
import { createLog, type Log, type LogLevel } from '../../src/process/log.ts'

/** Makes the log; `lines` grows with every line of JSON. */
export function collectingLog(level: LogLevel = 'info'): { log: Log; lines: string[] } {
  const lines: string[] = []
  const destination = { write: (line: string) => void lines.push(line) }
  return { log: createLog({ level, pretty: false, destination }), lines }
}

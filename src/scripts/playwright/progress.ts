// Progress of the tests of a run, from Playwright's events.
import type { ScriptContext } from '../context.ts'
import type { PlaywrightEvent } from './events.ts'
import type { PlaywrightReportBuilder } from './report.ts'

const LINE_CHARS_MAX = 200

/** Reports the progress when the event changes it. */
export function reportProgress(
  event: PlaywrightEvent,
  report: PlaywrightReportBuilder,
  context: ScriptContext,
): void {
  if (context.progress === undefined) return
  const line = lineOf(event, report)
  if (line === undefined && event.event !== 'begin') return
  context.progress({
    phase: 'test',
    ...report.progress(),
    ...(line === undefined ? {} : { line: line.slice(0, LINE_CHARS_MAX) }),
  })
}

/** The test that has begun or ended, or the error; undefined for other events. */
function lineOf(event: PlaywrightEvent, report: PlaywrightReportBuilder): string | undefined {
  if (event.event === 'error') return event.error.message.split('\n')[0]
  return event.event === 'start' || event.event === 'end' ? report.nameOf(event.id) : undefined
}

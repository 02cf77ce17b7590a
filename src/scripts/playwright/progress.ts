// Tells how far the tests of a run are, as Playwright says it.
import type { ScriptContext } from '../context.ts'
import type { PlaywrightEvent } from './events.ts'
import type { PlaywrightReportBuilder } from './report.ts'

const LINE_CHARS_MAX = 200

/** To whoever follows the run, when the event changes anything of that. */
export function tellProgress(
  event: PlaywrightEvent,
  report: PlaywrightReportBuilder,
  context: ScriptContext,
): void {
  if (context.progress === undefined) return
  const line = wordOf(event, report)
  if (line === undefined && event.event !== 'begin') return
  context.progress({
    phase: 'test',
    ...report.progress(),
    ...(line === undefined ? {} : { line: line.slice(0, LINE_CHARS_MAX) }),
  })
}

/** The test that has begun or ended, or what went wrong; undefined where an event tells nobody anything. */
function wordOf(event: PlaywrightEvent, report: PlaywrightReportBuilder): string | undefined {
  if (event.event === 'error') return event.error.message.split('\n')[0]
  return event.event === 'start' || event.event === 'end' ? report.nameOf(event.id) : undefined
}

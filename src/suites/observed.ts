// Observation of a suite's run for its result: every test, with as much detail as fits; the artifact `results.json`
// has all of it.
import {
  byUrgency,
  type PlaywrightReport,
  type TestAttempt,
  type TestReport,
} from '../scripts/playwright/report.ts'

/** Bytes of JSON; what is sent with a result has its bound. */
const OBSERVED_BYTES_MAX = 160_000
const MESSAGE_CHARS_MAX = 4000

/** How much of a test is shown, from all to little. */
interface Detail {
  stepsOf: 'all' | 'failed' | 'none'
  outputCharsMax: number
  messageCharsMax: number
  testsMax: number
}

const LEVELS: readonly Detail[] = [
  { stepsOf: 'all', outputCharsMax: 4000, messageCharsMax: MESSAGE_CHARS_MAX, testsMax: 2000 },
  { stepsOf: 'failed', outputCharsMax: 1000, messageCharsMax: MESSAGE_CHARS_MAX, testsMax: 2000 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 500, testsMax: 2000 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 200, testsMax: 500 },
  { stepsOf: 'none', outputCharsMax: 0, messageCharsMax: 200, testsMax: 50 },
]

/** The report as plain JSON that fits into a result; `leftOut` says what does not. */
export function observedTests(report: PlaywrightReport): Record<string, unknown> {
  const { stats, status, durationMs, playwrightVersion, workers, leftOut } = report
  const facts = {
    playwrightVersion,
    workers,
    status,
    durationMs,
    stats,
    errors: report.errors.slice(0, 10).map(({ message }) => message.slice(0, MESSAGE_CHARS_MAX)),
    ...(leftOut === 0 ? {} : { leftOut }),
  }
  // Where not all fit, failed tests are kept.
  const inOrder = report.tests.length > 50 ? byUrgency(report.tests) : report.tests
  for (const detail of LEVELS) {
    const tests = inOrder.slice(0, detail.testsMax)
    const shown = tests.map((test) => shownTest(test, detail))
    if (Buffer.byteLength(JSON.stringify(shown)) > OBSERVED_BYTES_MAX && detail !== LEVELS.at(-1))
      continue
    const isWhole = detail === LEVELS[0]
    return { ...facts, tests: shown, ...(isWhole ? {} : { shortened: 'see results.json' }) }
  }
  return facts
}

function shownTest(test: TestReport, detail: Detail): Record<string, unknown> {
  const { title, project, file, line, tags, outcome, annotations, attempts } = test
  return {
    title,
    ...(project === '' ? {} : { project }),
    at: `${file}:${line}`,
    outcome: outcome ?? 'unfinished',
    ...(tags.length === 0 ? {} : { tags }),
    ...(annotations.length === 0 ? {} : { annotations }),
    attempts: attempts.map((one) => shownAttempt(one, detail, outcome === 'expected')),
  }
}

function shownAttempt(attempt: TestAttempt, detail: Detail, isGood: boolean) {
  const { status, durationMs, steps, errors, attachments, output } = attempt
  const showsSteps = detail.stepsOf === 'all' || (detail.stepsOf === 'failed' && !isGood)
  return {
    status: status ?? 'unfinished',
    durationMs,
    ...(showsSteps && steps.length > 0 ? { steps } : {}),
    ...(errors.length === 0
      ? {}
      : { errors: errors.map(({ message }) => message.slice(0, detail.messageCharsMax)) }),
    ...(attachments.length === 0
      ? {}
      : { attachments: attachments.slice(0, 20).map(({ name }) => name) }),
    ...(output === '' || detail.outputCharsMax === 0
      ? {}
      : { output: output.slice(0, detail.outputCharsMax) }),
  }
}

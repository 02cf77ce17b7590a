// Prints a summary at the end of a test run: the skipped tests with the command that enables each, and one line
// with the counts.
import type { Reporter, TestModule } from 'vitest/node'

interface Skipped {
  name: string
  why: string
}

/** Vitest reporter, in addition to the default one. */
export class ClosingReporter implements Reporter {
  onTestRunEnd(modules: readonly TestModule[]): void {
    const counts = { passed: 0, failed: 0, skipped: 0 }
    const skipped: Skipped[] = []
    for (const module of modules) {
      if (module.state() === 'failed' && [...module.children.allTests()].length === 0)
        counts.failed++
      for (const test of module.children.allTests()) {
        const result = test.result()
        if (result.state === 'passed') counts.passed++
        else if (result.state === 'failed') counts.failed++
        else {
          counts.skipped++
          skipped.push({
            name: test.fullName,
            why: result.state === 'skipped' ? (result.note ?? '') : '',
          })
        }
      }
    }
    const lines = skipped.map(({ name, why }) => `skipped: ${name}${why === '' ? '' : ` — ${why}`}`)
    const closing = `${counts.passed} passed, ${counts.failed} failed, ${counts.skipped} skipped`
    process.stdout.write(`${[...lines, closing].join('\n')}\n`)
  }
}

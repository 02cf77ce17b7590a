// Prints a summary at the end of a test run: how long each project took, the skipped tests grouped by what they
// need, and one line with the counts. In CI a skipped test is a failure.
import type { Reporter, TestCase, TestModule } from 'vitest/node'

/** Vitest reporter, in addition to the default one. */
export class ClosingReporter implements Reporter {
  readonly #projects = new Map<string, { files: number; from: number; until: number }>()

  onTestModuleStart({ project }: TestModule): void {
    const now = performance.now()
    const { from, files } = this.#projects.get(project.name) ?? { from: now, files: 0 }
    this.#projects.set(project.name, { files: files + 1, from, until: now })
  }

  onTestModuleEnd({ project }: TestModule): void {
    const known = this.#projects.get(project.name)
    if (known !== undefined) known.until = performance.now()
  }

  onTestRunEnd(modules: readonly TestModule[]): void {
    const tests = modules.flatMap((module) => [...module.children.allTests()])
    const isIn = (state: string) => tests.filter((test) => test.result().state === state)
    const skipped = [...isIn('skipped'), ...isIn('pending')]
    // A file that cannot be loaded has no tests.
    const broken = modules.filter(
      (module) => module.state() === 'failed' && [...module.children.allTests()].length === 0,
    )
    const lines = [
      ...[...this.#projects].map(
        ([name, { files, from, until }]) =>
          `${name}: ${files} files in ${Math.round((until - from) / 1000)} s`,
      ),
      ...[...Map.groupBy(skipped, needOf)].map(
        ([need, { length }]) => `${length} skipped: ${need}`,
      ),
      `${isIn('passed').length} passed, ${isIn('failed').length + broken.length} failed, ${skipped.length} skipped`,
    ]
    process.stdout.write(`${lines.join('\n')}\n`)
    if (process.env['CI'] !== undefined && skipped.length > 0) process.exitCode = 1
  }
}

/** What a skipped test needs: its note, or what stands in its name; else its file. */
function needOf(test: TestCase): string {
  const result = test.result()
  const note = result.state === 'skipped' ? result.note : undefined
  return note ?? /\bneeds [^>]*\w/.exec(test.fullName)?.[0] ?? `see ${test.module.relativeModuleId}`
}

// How the tests run: a project for each tier and kind, in the order of `groupOrder`. README.md in this folder
// explains the tiers.
import { globSync, readFileSync } from 'node:fs'
import { availableParallelism } from 'node:os'
import { defineConfig } from 'vitest/config'
import { ClosingReporter } from './support/closing-reporter.ts'
import { debianMajors } from './support/database/database-servers.ts'

const root = new URL('..', import.meta.url).pathname
const quick = globSync('test/**/*.test.ts', {
  cwd: root,
  exclude: ['test/faults/**', 'test/container/**', '**/*.full.test.ts'],
})
const textOf = (path: string) => readFileSync(`${root}/${path}`, 'utf8')
/** What makes a file need a process of its own: support, modules that reach the system, changed globals. */
const REACHES_OUT = /from '[^']*\/support\/|from 'node:(?!crypto|path|util|zlib)|\bprocess\b|\bvi\./
const pure = quick.filter((path) => !REACHES_OUT.test(textOf(path)))
const onBothServers = quick.filter((path) => textOf(path).includes('(DATABASE_SERVERS'))
const hasOtherServer =
  debianMajors().length > 0 || (process.env['TEST_DATABASE_URL'] ?? process.env['CI']) !== undefined

const shared = {
  globalSetup: ['test/support/database/database-servers.ts'],
  // They end what hangs. A machine that others use too may be ten times slower, which is no fault.
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 120_000 } },
  pool: 'forks' as const,
}

/** A project of the full tier. Group 0 would come last where there is one worker. */
const project = (name: string, groupOrder: number, include: string[], more: object = {}) => ({
  test: {
    ...shared,
    name,
    include,
    sequence: { groupOrder },
    // Most of them wait for something half of their time.
    maxWorkers: 2 * availableParallelism(),
    ...more,
  },
})

export default defineConfig({
  root,
  test: {
    reporters: ['default', new ClosingReporter()],
    projects: [
      project('pure', 1, pure, { globalSetup: [], isolate: false }),
      project('parts', 1, ['test/**/*.test.ts'], {
        exclude: ['test/faults/**', 'test/container/**', '**/*.full.test.ts', ...pure],
      }),
      project('full', 2, ['test/**/*.full.test.ts'], { env: { TEST_DATABASES: 'both' } }),
      ...(hasOtherServer
        ? [project('other-database', 2, onBothServers, { env: { TEST_DATABASES: 'other' } })]
        : []),
      // They count every slot, and slots need a machine that keeps up. They wait more than they work.
      project('faults', 3, ['test/faults/**/*.test.ts'], {
        env: { TEST_DATABASES: 'both' },
        maxWorkers: 3,
      }),
      project('containers', 4, ['test/container/**/*.test.ts'], {
        globalSetup: ['test/support/container/remove-containers.ts'],
        // What tests made is removed by themselves: the library's own sweeper is an image to pull.
        env: { TESTCONTAINERS_RYUK_DISABLED: 'true' },
        maxWorkers: 2,
      }),
    ],
  },
})

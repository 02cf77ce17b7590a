// How the tests run: every file in a process of its own, several files at once. Those about faults come
// after the others: they count every slot, and slots need a machine that keeps up. Those of the images come last.
import { defineConfig } from 'vitest/config'
import { ClosingReporter } from './support/closing-reporter.ts'

const shared = {
  globalSetup: ['test/support/database/database-servers.ts'],
  // They end what hangs. A machine that others use too may be ten times slower, which is no fault.
  testTimeout: 300_000,
  hookTimeout: 300_000,
  expect: { poll: { timeout: 120_000 } },
  pool: 'forks' as const,
}

export default defineConfig({
  root: new URL('..', import.meta.url).pathname,
  test: {
    reporters: ['default', new ClosingReporter()],
    projects: [
      {
        test: {
          ...shared,
          name: 'parts',
          include: ['test/**/*.test.ts'],
          exclude: ['test/faults/**', 'test/container/**', '**/node_modules/**'],
          // Group 0 would come last where there is one worker.
          sequence: { groupOrder: 1 },
          // Most of them wait for something half of their time.
          maxWorkers: '100%',
        },
      },
      {
        test: {
          ...shared,
          name: 'faults',
          include: ['test/faults/**/*.test.ts'],
          sequence: { groupOrder: 2 },
          // They wait more than they work.
          maxWorkers: 2,
        },
      },
      {
        test: {
          ...shared,
          name: 'containers',
          include: ['test/container/**/*.test.ts'],
          globalSetup: ['test/support/container/remove-containers.ts'],
          // What tests made is removed by themselves: the library's own sweeper is an image to pull.
          env: { TESTCONTAINERS_RYUK_DISABLED: 'true' },
          sequence: { groupOrder: 3 },
          maxWorkers: 2,
        },
      },
    ],
  },
})

// How the tests run: every file in a process of its own, several files at once. Those about faults come
// after the others: they count every slot, and slots need a machine that keeps up. Those of the images come last.
import { defineConfig } from 'vitest/config'
import { ClosingReporter } from './support/closing-reporter.ts'

const shared = {
  globalSetup: ['test/support/database-servers.ts'],
  testTimeout: 30_000,
  hookTimeout: 60_000,
  pool: 'forks' as const,
  // Real processes on a machine that others use too: what passes only at a second try is named at the end.
  retry: 1,
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
          globalSetup: ['test/support/remove-containers.ts'],
          // What tests made is removed by themselves: the library's own sweeper is an image to pull.
          env: { TESTCONTAINERS_RYUK_DISABLED: 'true' },
          testTimeout: 120_000,
          sequence: { groupOrder: 3 },
          maxWorkers: 2,
        },
      },
    ],
  },
})

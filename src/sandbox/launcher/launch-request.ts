// Launch request of a run: bounds in the kernel's numbers, paths and filters.
import type { LaunchRequest, SupervisorRequest } from '../request.ts'
import { sandboxFilter } from './filter.ts'
import { pathsOf } from './paths.ts'
import { architectureOf } from '../../network/native/syscalls.ts'

// Of asm-generic/resource.h. No bound on address space: engines reserve far more than they use.
const RLIMIT_CPU = 0
const RLIMIT_FSIZE = 1
const RLIMIT_CORE = 4
const RLIMIT_NPROC = 6
const RLIMIT_NOFILE = 7
/** The kernel counts threads with the processes, and a browser's process has dozens. */
const THREADS_PER_PROCESS = 64

/** The launcher's part of an order; `makesSockets`: the supervisor makes the sockets of the run. */
export function launchRequest(order: SupervisorRequest, makesSockets: boolean): LaunchRequest {
  const { limits, userId } = order
  const architecture = architectureOf(process.arch)
  const filter = (signals: boolean, supervisor: boolean) =>
    architecture === undefined
      ? ''
      : sandboxFilter(architecture, { signals, supervisor, sockets: makesSockets }).toString(
          'base64',
        )
  return {
    command: order.command,
    args: order.args,
    cwd: order.cwd,
    environment: order.environment,
    ...(order.environmentUnenforced !== undefined && {
      environmentUnenforced: order.environmentUnenforced,
    }),
    ...(userId === undefined ? {} : { userId }),
    resources: [
      [RLIMIT_CPU, Math.ceil(limits.cpuMs / 1000) + 1],
      [RLIMIT_FSIZE, limits.fileBytes],
      [RLIMIT_CORE, 0],
      [RLIMIT_NOFILE, limits.openFiles],
      // Counted per user: only where the run has one of its own.
      ...(userId === undefined
        ? []
        : [[RLIMIT_NPROC, limits.processes * THREADS_PER_PROCESS] as const]),
    ],
    landlock: pathsOf(order),
    ...(architecture === undefined
      ? {}
      : {
          filters: {
            scoped: filter(false, true),
            unscoped: filter(true, true),
            alone: filter(false, false),
          },
        }),
    isolation: order.isolation,
  }
}

// Host of user code: the sandbox, the toolchains, the browser and the cache. The agent gives it to monitors that run
// code; an agent without it reports such monitors as errored.
import type { Toolchains } from './toolchains.ts'
import type { Sandbox } from '../sandbox/request.ts'

/** The same for all runs of an agent. */
export interface ScriptHost {
  /** The sandbox, made at first use: most agents never need it. */
  sandbox(): Promise<Sandbox>
  /** Engines and runtimes that are installed. */
  tools: Toolchains
  /** The browser that the settings name; undefined: it is looked for where systems have it. */
  chromiumPath: string | undefined
  cacheFolder: string
  /**
   * The file of a code bundle of the platform, a tar.gz, by its SHA-256; whole and checked. It stays for some
   * minutes at least. Rejects with BundleUnavailableError, or with the signal's reason. Absent where no
   * platform is.
   */
  bundle?(sha256: string, signal: AbortSignal): Promise<string>
  /** Ends the spare supervisor for the next run; runs go on. */
  close(): void
  /** Tries the sandbox where user code may run, and logs what is missing. Never rejects. */
  prepare?(): Promise<void>
  /** Missing requirements of the sandbox, a sentence each; none before it was tried. */
  warnings?(): string[]
  /** Layers of isolation that are enforced, for `/health`; undefined before the sandbox was tried. */
  layers?(): object | undefined
  /** Suites may name folders and files of this machine: they come from a file of monitors. */
  ownProjects?: boolean
}

export interface RunProgress {
  /** Current phase: `install`, `test`, `upload`. */
  phase: string
  done?: number
  total?: number
  /** The newest line of it. */
  line?: string
}

/** The bundle is unavailable; the message says why, and what to do where that is known. */
export class BundleUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BundleUnavailableError'
  }
}

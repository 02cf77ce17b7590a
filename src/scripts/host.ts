// What user code stands on: where it is held, and what it runs on. Lent by the agent to the monitors
// that run code; an agent without it reports such monitors as errored.
import type { Sandbox } from '../sandbox/sandbox.ts'
import type { Toolchains } from './toolchains.ts'

/** The same for all runs of an agent. */
export interface ScriptHost {
  /** The sandbox, made at first use: most agents never need it. */
  sandbox(): Promise<Sandbox>
  /** Engines and runtimes that are installed. */
  tools: Toolchains
  /** The browser that the settings name; undefined: it is looked for where systems have it. */
  chromiumPath: string | undefined
  /** What is kept between runs: bundles, dependencies, prepared browsers. */
  cacheFolder: string
  /**
   * The file of a code bundle of the platform, a tar.gz, by its SHA-256; whole and checked. It stays for some
   * minutes at least. Rejects with BundleUnavailableError, or with the signal's reason. Absent where no
   * platform is.
   */
  bundle?(sha256: string, signal: AbortSignal): Promise<string>
  /** Lets go of what is kept ready for the next run; runs go on. */
  close(): void
  /** Tries the sandbox where user code may come to run, and tells what is missing. Never rejects. */
  prepare?(): Promise<void>
  /** What the sandbox lacks, a sentence each; none before it was tried. */
  warnings?(): string[]
  /** What holds user code, for `/health`; undefined before the sandbox was tried. */
  layers?(): object | undefined
  /** Suites may name folders and files of this machine: they come from a file of monitors. */
  ownProjects?: boolean
}

/** How far a run is, for whoever follows it. */
export interface RunProgress {
  /** What it is at: `install`, `test`, `upload`. */
  phase: string
  done?: number
  total?: number
  /** The newest line of it. */
  line?: string
}

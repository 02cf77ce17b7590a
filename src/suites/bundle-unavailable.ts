// Why a code bundle of the platform cannot be had; told apart from bundles that are no good.

/** The bundle cannot be had; the message says why, and what to do where that is known. */
export class BundleUnavailableError extends Error {
  constructor(message: string, options?: ErrorOptions) {
    super(message, options)
    this.name = 'BundleUnavailableError'
  }
}

// Bounds of requests to the public API and of stored resources. Names end with their unit. The limits of
// agents are in versions.ts.

/** The bounds of the public API. */
export const API_BOUNDS = {
  /** A request's body. */
  bodyBytesMax: 1024 * 1024,
  /** From a request's head to the end of its body. */
  bodyMs: 10_000,
  /** Nesting of a JSON body. */
  jsonDepthMax: 32,
  /** A request's head, all headers together. */
  headerBytesMax: 16 * 1024,
  /** Path and query of a request. */
  targetBytesMax: 8 * 1024,
  /** A bearer key as it is sent. */
  keyCharactersMax: 256,
  nameCharactersMax: 255,
  descriptionCharactersMax: 10_000,
  servicesPerIncidentMax: 100,
  updatesPerIncidentMax: 1_000,
  /** Updates shown in an incident or listed at once: the latest ones. */
  updatesShownMax: 100,
  /** Text of updates after which a page of incidents ends early; `nextId` leads on. */
  pageTextBytesMax: 8 * 1024 * 1024,
  cardsPerPageMax: 50,
  servicesPerCardMax: 100,
  subscriptionsAtOnceMax: 100,
  /** Of one account. */
  privateLocationsMax: 1_000,
  /** Of one location: one is replaced by another without a pause. */
  activeKeysMax: 2,
  checkGroupsMax: 10_000,
  variablesMax: 1_000,
} as const

/* What a self-contained page does when it is unpacked: one player, one trace. */
(function () {
  "use strict";
  const FOVEA = (window.FOVEA = window.FOVEA || {});
  const { TraceError, splitFile } = FOVEA;

  /** Makes the player of the page. content: {options, trace}; options as of createPlayer, and at ('start' or 'end'), strip
      (positions of tokens). A trace that cannot be shown is one sentence. */
  FOVEA.openPage = function (root, { options, trace }) {
    const player = FOVEA.createPlayer(root, { links: location.protocol === "about:" ? null : {}, ...options }); // a frame has no address
    FOVEA.page = player;
    if (!trace) return;
    try {
      player.load(splitFile(trace), options.at);
    } catch (error) {
      if (!(error instanceof TraceError)) throw error;
      player.trouble(error.message);
      return;
    }
    if (options.strip) player.strip.choose(player.run, options.strip);
    player.links?.arrived(null);
  };
})();
